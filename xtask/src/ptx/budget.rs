//! What a kernel may cost.

use super::ptxas::Usage;

/// With more, 1024 threads no longer fit the 65,536 registers of a multiprocessor. Lane moves launch that many.
const REGISTERS: u32 = 64;

/// What is over budget, in words; nothing if all is within.
pub fn exceeded(usage: &Usage) -> Vec<String> {
    let limits = [
        ("registers", usage.registers, REGISTERS),
        ("bytes of stack", usage.stack, 0),
        ("bytes of spills", usage.spills, 0),
        // Shared memory is asked for at launch, by the number of warps.
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
        let within = Usage { registers: REGISTERS, ..Usage::default() };
        assert_eq!(exceeded(&within), Vec::<String>::new());
        let over = Usage {
            kernel: String::new(),
            registers: REGISTERS + 1,
            stack: 8,
            spills: 4,
            shared: 16,
            barriers: 1,
        };
        assert_eq!(exceeded(&over).len(), 5);
    }
}
