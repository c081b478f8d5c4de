//! Sides and groups, as C describes them.

use pagelift::geometry::{self, Landing as RustLanding, Lift as RustLift};
use pagelift_bindings::geometry::{AnyGroupSpec, AnySideSpec};

use crate::foreign::{In, Text};
use crate::keys::{Keys, PoolId};
use crate::layout::Layout;
use crate::status::{Failure, Outcome, Status, bad_value};

/// Where a group's blocks lie in one pool, and what one of them looks like there.
///
/// Region `r` of block `b` of layer `l` begins at the base of layer `l`, region `r` and extent `b / blocks_per_extent`, plus
/// `(b % blocks_per_extent) * block_stride`. Bases are said in one of two ways:
/// packed: `extents` (and `layer_offsets`), a base is their sum; or layer by layer: `layers`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SideSpec {
    /// sizeof(pagelift_side_spec).
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The pool.
    pub pool: PoolId,
    /// The layout of a layer's block.
    pub layout: Layout,
    /// Bytes from one block of a layer to the next.
    pub block_stride: u64,
    /// Packed: the address of each extent of the pool.
    pub extents: In<u64>,
    /// How many; 0 where layers are listed.
    pub extents_count: usize,
    /// Packed: bytes from an extent's start to block 0 of each layer (of each region of each layer, layers outermost).
    pub layer_offsets: In<u64>,
    /// How many.
    pub layer_offsets_count: usize,
    /// Layer by layer: the address of block 0 of each layer (of each region of each layer, layers outermost).
    pub layers: In<u64>,
    /// How many; 0 where extents are listed.
    pub layers_count: usize,
}

impl SideSpec {
    /// As Rust has it.
    pub fn read(self, keys: &Keys) -> Outcome<AnySideSpec> {
        let (pool, memory) = *keys.pool(self.pool)?;
        if self.reserved != 0 {
            return Err(bad_value("side->reserved", self.reserved, "0"));
        }
        let extents = self.extents.list(self.extents_count, "side->extents")?;
        let offsets = self.layer_offsets.list(self.layer_offsets_count, "side->layer_offsets")?;
        let layers = self.layers.list(self.layers_count, "side->layers")?;
        let layout = self.layout.handle().look(|layout| Ok(layout.clone()))?;
        let stride = self.block_stride;
        let spec = if layers.is_empty() {
            // A sum that does not fit 64 bits is caught when the geometry is built.
            geometry::SideSpec::packed(pool, &extents, &offsets, stride, layout)
        } else if extents.is_empty() && offsets.is_empty() {
            geometry::SideSpec::layer_separate(pool, &layers, stride, layout)
        } else {
            let text = "the side lists extents and layers; list one of them";
            return Err(Failure::new(Status::BadValue, text));
        };
        Ok(AnySideSpec { spec, memory })
    }
}

/// Where a group's imported blocks arrive.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// In host blocks.
    Host = 0,
    /// In pages.
    Device = 1,
}

/// What of a group that landed on the host is lifted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// Nothing.
    None = 0,
    /// Of paged groups: the writable page.
    Tail = 1,
    /// Of paged groups: all pages.
    All = 2,
    /// Of rings and states: the page.
    State = 3,
}

/// Layers that share one layout and one block table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupSpec {
    /// sizeof(pagelift_group_spec).
    pub size: u32,
    /// Layers.
    pub layers: u32,
    /// The name by which it pairs with the other engine's group.
    pub name: Text,
    /// A pagelift_landing.
    pub landing: u32,
    /// A pagelift_lift.
    pub lift: u32,
    /// Its side on the host, or null.
    pub host: In<SideSpec>,
    /// Its side on the device, or null.
    pub device: In<SideSpec>,
}

impl GroupSpec {
    /// As Rust has it.
    pub fn read(self, keys: &Keys) -> Outcome<AnyGroupSpec> {
        let landing = match self.landing {
            0 => RustLanding::Host,
            1 => RustLanding::Device,
            other => return Err(bad_value("spec->landing", other, "a pagelift_landing")),
        };
        let lift = match self.lift {
            0 => RustLift::None,
            1 => RustLift::Tail,
            2 => RustLift::All,
            3 => RustLift::State,
            other => return Err(bad_value("spec->lift", other, "a pagelift_lift")),
        };
        let side = |side: In<SideSpec>, what| -> Outcome<_> {
            side.sized_or_null(what)?.map(|side| side.read(keys)).transpose()
        };
        Ok(AnyGroupSpec {
            name: self.name.read("spec->name")?.into(),
            layers: self.layers,
            landing,
            lift,
            host: side(self.host, "spec->host")?,
            device: side(self.device, "spec->device")?,
        })
    }
}
