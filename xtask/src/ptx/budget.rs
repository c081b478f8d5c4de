//! What a kernel may cost.

use pagelift_device::BLOCK_THREADS;

use super::ptxas::Usage;

/// Registers of a multiprocessor, of which each thread gets a multiple of eight.
const REGISTERS_OF_ALL: u32 = 65_536;

/// With more, the threads of a block no longer fit.
const REGISTERS: u32 = REGISTERS_OF_ALL / BLOCK_THREADS / 8 * 8;

/// Bytes of the stack: room for the three registers of [`SPILLS`], in a frame of sixteen.
const STACK: u32 = 16;

/// Bytes of shared memory that a kernel may declare: what any GPU gives a block that does not ask for more.
const SHARED: u32 = 48 * 1024;

/// Bytes that are stored there and loaded: three registers, once each way. On sm_80 the pages' kernel keeps there what it
/// needs again after a unit is copied; its machine code touches them before the copying loops and behind them, not in one.
const SPILLS: u32 = 2 * 3 * 4;

/// What is over budget, in words; nothing if all is within.
pub fn exceeded(usage: &Usage) -> Vec<String> {
    let limits = [
        ("registers", usage.registers, REGISTERS),
        ("bytes of stack", usage.stack, STACK),
        ("bytes of spills", usage.spills, SPILLS),
        ("bytes of static shared memory", usage.shared, SHARED),
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
        let within = Usage { registers: 80, stack: 16, spills: 24, shared: 49_152, ..Usage::default() };
        assert_eq!(exceeded(&within), Vec::<String>::new());
        let over = Usage {
            kernel: String::new(),
            registers: 81,
            stack: 24,
            spills: 28,
            shared: 49_168,
            barriers: 1,
        };
        assert_eq!(exceeded(&over).len(), 5);
    }
}
