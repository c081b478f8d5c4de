//! How keys are copied, compared and hashed: by what they are numbered by.

/// What a key is copied, compared and hashed by. Derived, all of that would be asked of the types that stand for a direction or a
/// kind, too, of which there are no values.
macro_rules! key {
    ($name:ident<$($kind:ident),+>: $($field:tt),+) => {
        impl<$($kind),+> Clone for $name<$($kind),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($kind),+> Copy for $name<$($kind),+> {}

        impl<$($kind),+> PartialEq for $name<$($kind),+> {
            fn eq(&self, other: &Self) -> bool {
                ($(self.$field,)+) == ($(other.$field,)+)
            }
        }

        impl<$($kind),+> Eq for $name<$($kind),+> {}

        impl<$($kind),+> std::hash::Hash for $name<$($kind),+> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                ($(self.$field,)+).hash(state);
            }
        }
    };
}

pub(super) use key;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::geometry::{CompactRouteKey, DigestKey, GroupKey, Paged, RouteKey, SideKey};
    use crate::id::GroupId;
    use crate::plan::DeviceToHost;

    /// Keys by number and geometry, of which two are equal.
    fn keys<K>(key: impl Fn(u32, u64) -> K) -> [K; 4] {
        [key(1, 7), key(2, 7), key(1, 8), key(1, 7)]
    }

    #[test]
    fn keys_of_one_thing_are_equal_and_of_another_geometry_are_not() {
        let route = |index, geometry| RouteKey::<DeviceToHost, Paged>::new(index, geometry);
        assert_eq!(HashSet::from(keys(SideKey::<Paged>::new)).len(), 3);
        assert_eq!(
            HashSet::from(keys(|id, geometry| GroupKey::<Paged>::new(GroupId::new(id), geometry))).len(),
            3
        );
        assert_eq!(HashSet::from(keys(route)).len(), 3);
        assert_eq!(HashSet::from(keys(|index, geometry| CompactRouteKey(route(index, geometry)))).len(), 3);
        assert_eq!(HashSet::from(keys(|index, geometry| DigestKey(route(index, geometry)))).len(), 3);
    }
}
