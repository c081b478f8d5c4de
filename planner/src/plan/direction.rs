//! Which way a plan copies, as a type.

use crate::geometry::Memory;
use crate::id::{BlockId, HostBlockId, PageId};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::HostToDevice {}
    impl Sealed for super::DeviceToHost {}
    impl Sealed for super::DeviceToDevice {}
}

/// The way a plan copies: one direction a launch.
pub trait Direction: sealed::Sealed + 'static {
    /// What the source pool numbers.
    type Source: BlockId;
    /// What the destination pool numbers.
    type Destination: BlockId;
    /// Where rows come from.
    const SOURCE: Memory;
    /// Where rows go.
    const DESTINATION: Memory;
    /// In words.
    const NAME: &'static str;
}

/// Lifts and loads.
#[derive(Clone, Copy, Debug)]
pub enum HostToDevice {}
/// Mirrors, checkpoints and spills.
#[derive(Clone, Copy, Debug)]
pub enum DeviceToHost {}
/// Private copies and gathers on the device.
#[derive(Clone, Copy, Debug)]
pub enum DeviceToDevice {}

impl Direction for HostToDevice {
    type Source = HostBlockId;
    type Destination = PageId;
    const SOURCE: Memory = Memory::Host;
    const DESTINATION: Memory = Memory::Device;
    const NAME: &'static str = "host to device";
}

impl Direction for DeviceToHost {
    type Source = PageId;
    type Destination = HostBlockId;
    const SOURCE: Memory = Memory::Device;
    const DESTINATION: Memory = Memory::Host;
    const NAME: &'static str = "device to host";
}

impl Direction for DeviceToDevice {
    type Source = PageId;
    type Destination = PageId;
    const SOURCE: Memory = Memory::Device;
    const DESTINATION: Memory = Memory::Device;
    const NAME: &'static str = "device to device";
}

/// `page 3` or `host block 3`, for messages.
pub(crate) fn block_words(memory: Memory, block: u32) -> String {
    match memory {
        Memory::Host => HostBlockId::new(block).to_string(),
        Memory::Device => PageId::new(block).to_string(),
    }
}
