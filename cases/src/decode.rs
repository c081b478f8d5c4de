//! Reads tables by the documentation of `pagelift-abi` alone, byte by byte, and spells every copy out.

use pagelift_abi as abi;
use pagelift_planner::geometry::Geometry;

/// One contiguous copy, or zeros where there is no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The first destination byte.
    pub to: u64,
    /// The first source byte.
    pub from: Option<u64>,
    /// Its length.
    pub bytes: u64,
}

/// What one unit moves, with the width of its accesses.
#[derive(Debug)]
pub struct Unit {
    /// Its copies.
    pub moves: Vec<Move>,
    /// Bytes of an access.
    pub width: u64,
}

/// The header's fields, by their names in `pagelift-abi`.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table's documentation says what they are")]
pub struct Header {
    pub ticket: u64,
    pub completion: u64,
    pub version: u32,
    pub flags: u32,
    pub jobs: u32,
    pub units: u32,
    pub indices_at: u32,
    pub changes_at: u32,
    pub changes: u32,
}

/// The word at a byte of a table.
#[must_use]
pub fn u32_at(table: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(table[at..at + 4].try_into().unwrap())
}

/// The double word at a byte of a table.
#[must_use]
pub fn u64_at(table: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(table[at..at + 8].try_into().unwrap())
}

/// Bytes of a header.
pub const HEADER_BYTES: usize = 48;
/// Bytes of a job of a page plan, or of a digest.
pub const PAGE_JOB_BYTES: usize = 32;
/// Bytes of a job of a row plan.
pub const ROW_JOB_BYTES: usize = 80;
/// Bytes of a pair of blocks in a list.
pub const PAIR_BYTES: usize = 8;

/// The header of a table.
#[must_use]
pub fn header(table: &[u8]) -> Header {
    assert_eq!(u32_at(table, 44), 0, "the reserved word");
    Header {
        ticket: u64_at(table, 0),
        completion: u64_at(table, 8),
        version: u32_at(table, 16),
        flags: u32_at(table, 20),
        jobs: u32_at(table, 24),
        units: u32_at(table, 28),
        indices_at: u32_at(table, 32),
        changes_at: u32_at(table, 36),
        changes: u32_at(table, 40),
    }
}

/// The page-map changes, in the table's order.
#[must_use]
pub fn changes(table: &[u8]) -> Vec<(u32, i32)> {
    let Header { changes, changes_at, .. } = header(table);
    (0..changes as usize)
        .map(|i| changes_at as usize + i * 8)
        .map(|at| (u32_at(table, at), u32_at(table, at + 4).cast_signed()))
        .collect()
}

/// Where a region of `block` of `layer` begins, as kernels compute it. `region` is its first base, counted from the
/// layer's.
fn block_address(geometry: &Geometry, side: &abi::Side, layer: u32, block: u32, region: u32) -> u64 {
    assert!(block < side.blocks, "block {block} of {}", side.blocks);
    let extent = block / side.blocks_per_extent;
    assert!(region + extent < side.layer_bases);
    let base = geometry.bases()[(side.bases + layer * side.layer_bases + region + extent) as usize];
    base + u64::from(block % side.blocks_per_extent) * side.block_stride
}

/// Every unit of a table of page jobs, in order, checked against the counts that jobs and header state.
#[must_use]
pub fn units(geometry: &Geometry, table: &[u8]) -> Vec<Unit> {
    let head = header(table);
    assert_eq!(head.version, abi::VERSION);
    assert_eq!(head.indices_at as usize, HEADER_BYTES + head.jobs as usize * PAGE_JOB_BYTES);
    assert_eq!(head.changes, 0);
    assert_eq!(head.changes_at as usize, table.len());
    let mut units = Vec::new();
    for job in 0..head.jobs as usize {
        let at = HEADER_BYTES + job * PAGE_JOB_BYTES;
        let word = |field: usize| u32_at(table, at + field * 4);
        let [route, before, source, destination] = [0, 1, 2, 3].map(word);
        let [source_row, destination_row, rows, flags] = [4, 5, 6, 7].map(word);
        assert_eq!(before as usize, units.len(), "units_before of job {job}");
        assert_eq!(flags & !(abi::job::ZERO | abi::job::LIST), 0, "unknown flags");
        let pairs: Vec<(u32, u32)> = if flags & abi::job::LIST == 0 {
            vec![(source, destination)]
        } else {
            let entry = |i: u32| head.indices_at as usize + i as usize * 8;
            assert!(entry(source + destination) <= table.len(), "a block list past the table's end");
            let pair = |i: u32| (u32_at(table, entry(i)), u32_at(table, entry(i) + 4));
            (source..source + destination).map(pair).collect()
        };
        let route = geometry.routes()[route as usize];
        for (source, destination) in pairs {
            for layer in 0..route.layers {
                let zero = flags & abi::job::ZERO != 0;
                for segment in route.first_segment..route.first_segment + route.segments {
                    let pair = geometry.segments()[segment as usize];
                    let to = block_address(
                        geometry,
                        &route.destination,
                        layer,
                        destination,
                        pair.destination_base,
                    ) + pair.destination_offset
                        + u64::from(destination_row) * u64::from(pair.destination_stride);
                    let from = (!zero).then(|| {
                        block_address(geometry, &route.source, layer, source, pair.source_base)
                            + pair.source_offset
                            + u64::from(source_row) * u64::from(pair.source_stride)
                    });
                    push_units(&pair, from, to, rows, &mut units);
                }
            }
        }
    }
    assert_eq!(head.units as usize, units.len(), "units of the header");
    units
}

/// The units of one run of rows.
fn push_units(pair: &abi::SegmentPair, from: Option<u64>, to: u64, rows: u32, units: &mut Vec<Unit>) {
    let width = u64::from(pair.width);
    if pair.rows_log2 == abi::CONTIGUOUS {
        let total = u64::from(rows) * u64::from(pair.row_bytes);
        let mut start = 0;
        while start < total {
            let bytes = (total - start).min(u64::from(abi::UNIT_BYTES));
            let piece = Move { to: to + start, from: from.map(|from| from + start), bytes };
            units.push(Unit { moves: vec![piece], width });
            start += bytes;
        }
        return;
    }
    let rows_of_unit = 1_u32 << pair.rows_log2;
    let all: Vec<u32> = (0..rows).collect();
    for rows in all.chunks(rows_of_unit as usize) {
        let moves = rows.iter().map(|&row| Move {
            to: to + u64::from(row) * u64::from(pair.destination_stride),
            from: from.map(|from| from + u64::from(row) * u64::from(pair.source_stride)),
            bytes: u64::from(pair.row_bytes),
        });
        units.push(Unit { moves: moves.collect(), width });
    }
}

/// The same bytes in as few moves as can be, by destination. Panics where a destination byte comes twice.
#[must_use]
pub fn merged(mut moves: Vec<Move>) -> Vec<Move> {
    moves.sort();
    let mut merged: Vec<Move> = Vec::new();
    for next in moves {
        if let Some(last) = merged.last_mut() {
            let end = last.to + last.bytes;
            assert!(next.to >= end, "{next:x?} writes what {last:x?} writes");
            let follows = last.from.map(|from| from + last.bytes) == next.from;
            if next.to == end && follows {
                last.bytes += next.bytes;
                continue;
            }
        }
        merged.push(next);
    }
    merged
}

/// Checks what holds of the units of every plan, and gives their moves.
pub fn checked_moves(geometry: &Geometry, table: &[u8]) -> Vec<Move> {
    let units = units(geometry, table);
    for unit in &units {
        let total: u64 = unit.moves.iter().map(|piece| piece.bytes).sum();
        assert!(total > 0 && total <= u64::from(abi::UNIT_BYTES), "a unit of {total} bytes");
        assert!([16, 8, 4, 2, 1].contains(&unit.width));
        for piece in &unit.moves {
            for number in [piece.to, piece.from.unwrap_or(0), piece.bytes] {
                assert_eq!(number % unit.width, 0, "{piece:x?} with accesses of {} bytes", unit.width);
            }
        }
    }
    merged(units.into_iter().flat_map(|unit| unit.moves).collect())
}

/// One run of bytes that a digest reads, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The layer.
    pub layer: u32,
    /// The segment.
    pub segment: u32,
    /// The row, counted through all blocks.
    pub row: u32,
    /// Bytes of the row before it.
    pub column: u64,
    /// Where it is.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

/// What each job of a table of digests reads, checked against the counts that jobs and header state.
pub fn reads(geometry: &Geometry, table: &[u8]) -> Vec<Vec<Read>> {
    let head = header(table);
    assert_eq!((head.version, head.changes), (abi::VERSION, 0));
    assert_eq!(head.indices_at as usize, HEADER_BYTES + head.jobs as usize * PAGE_JOB_BYTES);
    let mut units = 0;
    let jobs = (0..head.jobs as usize).map(|job| {
        let word = |field: usize| u32_at(table, HEADER_BYTES + job * PAGE_JOB_BYTES + field * 4);
        let [route, before, source, count] = [0, 1, 2, 3].map(word);
        let [source_row, logical, rows, flags] = [4, 5, 6, 7].map(word);
        assert_eq!((before, source_row), (units, 0), "units before, first row of job {job}");
        assert_eq!(flags & !abi::job::LIST, 0, "unknown flags");
        let listed = flags & abi::job::LIST != 0;
        let blocks = (0..if listed { count } else { 1 }).map(|i| match listed {
            true => u32_at(table, head.indices_at as usize + (source + i) as usize * 8),
            false => source,
        });
        let route = geometry.routes()[route as usize];
        let mut reads = Vec::new();
        for (block, first) in blocks.zip((logical..).step_by(rows as usize)) {
            for layer in 0..route.layers {
                for segment in route.first_segment..route.first_segment + route.segments {
                    let pair = geometry.segments()[segment as usize];
                    assert_ne!(pair.rows_log2, abi::CONTIGUOUS, "each row begins a word of its own");
                    assert!(pair.row_bytes << pair.rows_log2 <= abi::UNIT_BYTES);
                    units += rows.div_ceil(1 << pair.rows_log2);
                    let start = block_address(geometry, &route.source, layer, block, pair.source_base);
                    reads.extend((0..rows).map(|row| Read {
                        layer,
                        segment: pair.destination_base,
                        row: first + row,
                        column: pair.destination_offset,
                        address: start + pair.source_offset + u64::from(row) * u64::from(pair.source_stride),
                        bytes: u64::from(pair.row_bytes),
                    }));
                    let width = u64::from(pair.width);
                    assert!((start + pair.source_offset).is_multiple_of(width), "accesses of {width} bytes");
                    assert!(u64::from(pair.source_stride | pair.row_bytes).is_multiple_of(width));
                }
            }
        }
        reads
    });
    let jobs = jobs.collect();
    assert_eq!(head.units, units, "units of the header");
    jobs
}

/// What copying one row by a route moves, as kernels compute it.
#[must_use]
pub fn row_moves(geometry: &Geometry, route: u32, from: (u32, u32), to: (u32, u32)) -> Vec<Move> {
    let route = geometry.routes()[route as usize];
    let mut moves = Vec::new();
    for layer in 0..route.layers {
        for pair in &geometry.segments()[route.first_segment as usize..][..route.segments as usize] {
            let source = block_address(geometry, &route.source, layer, from.0, pair.source_base);
            let destination = block_address(geometry, &route.destination, layer, to.0, pair.destination_base);
            moves.push(Move {
                from: Some(source + pair.source_offset + u64::from(from.1) * u64::from(pair.source_stride)),
                to: destination
                    + pair.destination_offset
                    + u64::from(to.1) * u64::from(pair.destination_stride),
                bytes: u64::from(pair.row_bytes),
            });
        }
    }
    moves
}
