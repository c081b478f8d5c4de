//! Groups of any kind, and routes of any direction.

use pagelift::error::GeometryError;
use pagelift::geometry::{GeometryBuilder, GroupKind, Landing, Lift, Memory};
use pagelift::memory::Registry;
use pagelift_bindings::geometry::{self, AnyGroupSpec};
use pagelift_bindings::keys::Way;
use pagelift_bindings::{Error, Mismatch};

use crate::world::{BLOCKS, ROWS, World, layouts, side};

const KINDS: [GroupKind; 3] = [GroupKind::Paged, GroupKind::Ring, GroupKind::State];

/// A group whose two sides have these layouts.
fn group(host: usize, device: usize, lift: Lift) -> Result<GroupKind, Error> {
    let (mut builder, mut memory) = (GeometryBuilder::new(), Registry::new());
    let mut of = |name, place, kind: usize| {
        Some(side(&mut builder, &mut memory, name, place, BLOCKS, layouts()[kind].clone()).0)
    };
    let (host, device) = (of("host", Memory::Host, host), of("device", Memory::Device, device));
    let (name, landing) = ("group".into(), Landing::Host);
    let spec = AnyGroupSpec { name, layers: 1, landing, lift, host, device };
    geometry::group(&mut builder, spec).map(|group| group.kind())
}

#[test]
fn each_kind_has_its_own_lifts() {
    for (number, kind) in KINDS.into_iter().enumerate() {
        for lift in [Lift::Tail, Lift::All, Lift::State, Lift::None] {
            let expected = match kind {
                GroupKind::Paged => lift != Lift::State,
                GroupKind::Ring | GroupKind::State => matches!(lift, Lift::State | Lift::None),
            };
            match group(number, number, lift) {
                Ok(found) => assert!(expected && found == kind, "{kind:?}, {lift:?}"),
                Err(Error::Mismatch(Mismatch::Lift { group, found })) => {
                    assert!(!expected && (group, found) == (kind, lift), "{kind:?}, {lift:?}");
                }
                Err(other) => panic!("{kind:?}, {lift:?}: {other}"),
            }
        }
    }
}

#[test]
fn sides_of_different_kinds_are_no_group() {
    for (host, device) in [(0, 1), (1, 2), (2, 0), (1, 0)] {
        let found = group(host, device, Lift::None);
        let expected = Mismatch::Layout { group: KINDS[host], layout: KINDS[device] };
        assert!(matches!(found, Err(Error::Mismatch(found)) if found == expected), "{found:?}");
    }
}

#[test]
fn a_group_without_sides_is_refused_by_the_library() {
    let (name, landing) = ("group".into(), Landing::Host);
    let spec = AnyGroupSpec { name, layers: 1, landing, lift: Lift::None, host: None, device: None };
    let found = geometry::group(&mut GeometryBuilder::new(), spec);
    let missing =
        matches!(found, Err(Error::Library(pagelift::Error::Geometry(GeometryError::MissingSide { .. }))));
    assert!(missing, "{found:?}");
}

#[test]
fn routes_have_the_direction_of_their_sides() {
    let world = World::new();
    for group in &world.groups {
        assert_eq!(group.routes.map(|route| route.way()), Way::ALL);
        assert_eq!(geometry::lift_route(&world.geometry, group.key).unwrap().way(), Way::Down);
        assert_eq!(geometry::spill_route(&world.geometry, group.key).unwrap().way(), Way::Up);
    }
    assert_eq!(world.compact.map(|route| route.way()), [Way::Down, Way::Across]);
    let slots = world
        .groups
        .each_ref()
        .map(|group| geometry::block_slots(&world.geometry, group.key, Memory::Host).unwrap().get());
    assert_eq!(slots, [ROWS.into(), ROWS.into(), 1]);
}

#[test]
fn routes_that_cannot_be_are_refused() {
    let (mut builder, mut memory) = (GeometryBuilder::new(), Registry::new());
    let keys: Vec<_> = layouts()
        .into_iter()
        .zip(["a", "b", "c"])
        .map(|(layout, name)| {
            let (host, _) = side(&mut builder, &mut memory, name, Memory::Host, BLOCKS, layout);
            let (name, landing) = (name.into(), Landing::Host);
            let (lift, host) = (Lift::None, Some(host));
            let spec = AnyGroupSpec { name, layers: 1, landing, lift, host, device: None };
            geometry::group(&mut builder, spec).unwrap()
        })
        .collect();
    assert!(keys.iter().all(|key| geometry::main_side(&builder, *key, Memory::Device).is_none()));
    let sides: Vec<_> =
        keys.iter().map(|key| geometry::main_side(&builder, *key, Memory::Host).unwrap()).collect();
    // From host to host, which no direction is.
    for side in &sides {
        let found = geometry::route(&mut builder, *side, *side);
        let none = matches!(
            found,
            Err(Error::Library(pagelift::Error::Geometry(GeometryError::NoSuchRoute { .. })))
        );
        assert!(none, "{found:?}");
    }
    let different = Mismatch::Sides { from: GroupKind::Paged, to: GroupKind::Ring };
    let found = geometry::route(&mut builder, sides[0], sides[1]);
    assert!(matches!(found, Err(Error::Mismatch(found)) if found == different), "{found:?}");
    let found = geometry::compact_route(&mut builder, sides[2], sides[2]);
    let states = matches!(found, Err(Error::Mismatch(Mismatch::Group { found: GroupKind::State, .. })));
    assert!(states, "{found:?}");
    let (ring, _) = side(&mut builder, &mut memory, "d", Memory::Device, BLOCKS, layouts()[1].clone());
    let found = geometry::side(&mut builder, keys[0], ring);
    let expected = Mismatch::Layout { group: GroupKind::Paged, layout: GroupKind::Ring };
    assert!(matches!(found, Err(Error::Mismatch(found)) if found == expected), "{found:?}");
}

#[test]
fn refusals_say_what_was_expected_and_what_came() {
    let words = [
        (
            Mismatch::Layout { group: GroupKind::Paged, layout: GroupKind::Ring },
            "the group is paged, and a side's layout a ring: they are of different kinds",
        ),
        (
            Mismatch::Lift { group: GroupKind::Ring, found: Lift::Tail },
            "lift of a ring or state group is tail; expected one of state, none",
        ),
        (
            Mismatch::Way { expected: Way::Down, found: Way::Up },
            "the plan copies host to device, and the route goes device to host",
        ),
    ];
    for (mismatch, expected) in words {
        assert_eq!(mismatch.to_string(), expected);
    }
}
