//! What a kernel may cost.

use pagelift_abi::BLOCK_THREADS;

use super::ptxas::Usage;

/// Registers of a multiprocessor, of which each thread gets a multiple of eight.
const REGISTERS_OF_ALL: u32 = 65_536;

/// With more, the threads of a block no longer fit.
const REGISTERS: u32 = REGISTERS_OF_ALL / BLOCK_THREADS / 8 * 8;

/// Bytes of the stack: room for one register that waits there. `pagelift_copy_rows` has one on sm_80, whatever it keeps: once
/// a job it is stored and loaded twice, outside of the loops over entries and rows.
const STACK: u32 = 8;

/// Bytes that are stored there and loaded.
const SPILLS: u32 = 12;

/// What is over budget, in words; nothing if all is within.
pub fn exceeded(usage: &Usage) -> Vec<String> {
    let limits = [
        ("registers", usage.registers, REGISTERS),
        ("bytes of stack", usage.stack, STACK),
        ("bytes of spills", usage.spills, SPILLS),
        ("bytes of static shared memory", usage.shared, 0),
        ("block barriers", usage.barriers, 0),
    ];
    let over = limits.into_iter().filter(|(_, used, limit)| used > limit);
    over.map(|(what, used, limit)| format!("{used} {what}, {limit} allowed")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_holds() {
        let within = Usage { registers: 80, stack: 8, spills: 12, ..Usage::default() };
        assert_eq!(exceeded(&within), Vec::<String>::new());
        let over =
            Usage { kernel: String::new(), registers: 81, stack: 16, spills: 16, shared: 16, barriers: 1 };
        assert_eq!(exceeded(&over).len(), 5);
    }
}
