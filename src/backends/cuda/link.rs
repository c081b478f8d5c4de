//! The link between a GPU and the host.

use std::fmt;
use std::fs;
use std::path::Path;

/// A PCIe link: what bounds copies between host and device.
///
/// ```
/// use pagelift::backends::PcieLink;
/// let link = PcieLink { generation: 5, lanes: 16 };
/// assert_eq!(link.to_string(), "PCIe gen 5 x16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// The newest generation that the device speaks; an idle link may have slowed down.
    pub generation: u32,
    /// Lanes that are in use.
    pub lanes: u32,
}

impl PcieLink {
    /// Of a device by its place on the bus (`0000:1B:00.0`), where the system tells.
    pub(super) fn of_device(bus: &str) -> Option<Self> {
        Self::of_device_in(Path::new("/sys/bus/pci/devices"), bus)
    }

    fn of_device_in(devices: &Path, bus: &str) -> Option<Self> {
        let device = devices.join(bus.to_lowercase());
        let read = |file| fs::read_to_string(device.join(file)).ok();
        // `32.0 GT/s PCIe`.
        let generation = match read("max_link_speed")?.split(' ').next()? {
            "2.5" => 1,
            "5.0" => 2,
            "8.0" => 3,
            "16.0" => 4,
            "32.0" => 5,
            "64.0" => 6,
            _ => return None,
        };
        let lanes =
            read("current_link_width")?.trim().parse().ok().filter(|lanes| (1..=32).contains(lanes))?;
        Some(Self { generation, lanes })
    }
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe gen {} x{}", self.generation, self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_what_the_system_says() {
        let read = |speed: &str, width: &str| {
            let devices = tempfile::tempdir().unwrap();
            let device = devices.path().join("0000:1b:00.0");
            fs::create_dir(&device).unwrap();
            fs::write(device.join("max_link_speed"), speed).unwrap();
            fs::write(device.join("current_link_width"), width).unwrap();
            PcieLink::of_device_in(devices.path(), "0000:1B:00.0")
        };
        assert_eq!(read("32.0 GT/s PCIe\n", "16\n"), Some(PcieLink { generation: 5, lanes: 16 }));
        assert_eq!(read("8.0 GT/s PCIe\n", "8\n"), Some(PcieLink { generation: 3, lanes: 8 }));
        assert_eq!(read("Unknown\n", "16\n"), None);
        // What virtual machines say.
        assert_eq!(read("32.0 GT/s PCIe\n", "0\n"), None);
        assert_eq!(PcieLink::of_device("nowhere"), None);
    }
}
