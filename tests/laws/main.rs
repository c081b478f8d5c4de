//! What pagelift promises, as laws that are written once and hold on every backend.
//!
//! Each law is a function over a [`Subject`](backends::Subject), and `laws!` makes tests of all of them for each
//! subject. Data are random everywhere, references are naive, and whole regions are compared: neighbours, padding,
//! sources and tables of the step too. A failing case is told by its seed and size.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod adopted;
mod backends;
mod capture;
mod copies;
mod device;
mod digest;
mod driver;
mod faults;
mod gpu;
mod lifts;
mod mirror;
mod order;
mod owners;
mod page_map;
mod pools;
mod random;
mod refusals;
mod runner;
mod steps;
mod streams;
mod suited;
mod tickets;
mod world;

use proptest::prelude::*;

/// `default` cases, unless `PROPTEST_CASES` asks for more.
fn cases(default: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// All laws, for each subject.
macro_rules! laws {
    ($(#[$when:meta] $module:ident: $subject:ty, $cases:literal cases);+ $(;)?) => { $(
        mod $module {
            use proptest::prelude::*;

            proptest! {
                #![proptest_config(crate::cases($cases))]

                #[test]
                #[$when]
                fn lifts_every_row_and_nothing_else(seed: u64, size in 1_u32..6) {
                    crate::random::lifts::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn writes_whole_pages_back_and_nothing_else(seed: u64, size in 1_u32..6) {
                    crate::random::writes_back::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn moves_pages_on_the_device_and_nothing_else(seed: u64, size in 1_u32..6) {
                    crate::random::moves::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn mirrors_every_final_row_and_nothing_else(seed: u64, size in 1_u32..6) {
                    crate::random::mirrors::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn gathers_the_rows_of_a_list_and_nothing_else(seed: u64, size in 1_u32..6) {
                    crate::random::gathers::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn falling_query_starts_are_never_written_elsewhere(seed: u64) {
                    crate::mirror::falling_starts::<$subject>(seed);
                }

                #[test]
                #[$when]
                fn a_plan_spelled_out_is_what_its_launch_does(seed: u64, size in 1_u32..6) {
                    crate::copies::law::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn digests_are_of_the_rows_that_are_there(seed: u64, size in 1_u32..6) {
                    crate::random::digests::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn digests_tell_content_and_not_where_it_lies(seed: u64, size in 1_u32..6) {
                    crate::digest::law::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn a_wrong_byte_is_noticed_wherever_it_is(seed: u64, size in 1_u32..4) {
                    crate::faults::a_wrong_byte_is_noticed::<$subject>(seed, size);
                }

                #[test]
                #[$when]
                fn tickets_tell_what_became_of_any_plan(seed: u64) {
                    crate::tickets::any_order::<$subject>(seed);
                }
            }

            laws!(@fixed #[$when] $subject; page_map:
                changes_take_effect_when_staged, changes_of_a_superseded_plan_stay, a_page_is_unmapped_before_it_is_given_away,
                the_map_is_kept_by_the_launcher_bound_last, changes_past_the_capacity_are_refused);
            laws!(@fixed #[$when] $subject; tickets:
                an_empty_plan_completes, a_plan_runs_in_exactly_one_launch, a_repeated_plan_runs_every_time,
                nothing_staged_is_nothing_done, the_last_plan_staged_supersedes, a_full_ring_is_an_error_and_no_more,
                a_smaller_plan_leaves_the_larger_one_behind, old_tickets_are_unknown, counters_add_up);
            laws!(@fixed #[$when] $subject; refusals:
                another_geometry, another_registry, a_released_region, unregistered_memory, a_larger_plan,
                numbers_of_slots, a_backend_that_fails, a_backend_that_fails_to_digest, a_backend_that_gives_too_little,
                a_table_in_flight_is_not_rewritten);
            laws!(@fixed #[$when] $subject; digest:
                a_lifted_page_has_the_digest_of_its_block, digests_are_read_when_they_are_complete,
                numbers_of_other_plans_are_refused, results_have_room_and_are_added_once);
            laws!(@fixed #[$when] $subject; faults: a_wrong_reference_is_noticed);
            laws!(@fixed #[$when] $subject; runner: engines_of_two_ranks);
        }
    )+ };
    (@fixed #[$when:meta] $subject:ty; $module:ident: $($law:ident),+) => { $(
        #[test]
        #[$when]
        fn $law() {
            crate::$module::$law::<$subject>();
        }
    )+ };
}

laws! {
    #[cfg(all())] cpu_with_one_thread: crate::backends::OneThread, 64 cases;
    #[cfg(all())] cpu_with_two_threads: crate::backends::TwoThreads, 64 cases;
    #[cfg(all())] emulated_warps: crate::backends::Warps, 64 cases;
    #[cfg(all())] emulated_single_lanes: crate::backends::SingleLanes, 64 cases;
    #[cfg(all())] cuda_over_a_driver_in_software: crate::backends::Software, 16 cases;
    #[ignore = "needs an NVIDIA GPU"] on_a_gpu: crate::backends::Gpu, 64 cases;
}

/// The engine's own memory, which a GPU would first have to register.
macro_rules! adopts {
    ($($module:ident: $subject:ident),+ $(,)?) => { $(
        proptest! {
            #![proptest_config(crate::cases(64))]

            #[test]
            fn $module(seed: u64, size in 1_u32..5) {
                crate::adopted::law::<crate::backends::$subject>(seed, size);
            }
        }
    )+ };
}

adopts! {
    an_engines_own_memory_is_adopted_and_given_back_by_one_thread: OneThread,
    an_engines_own_memory_is_adopted_and_given_back_by_two_threads: TwoThreads,
    an_engines_own_memory_is_adopted_and_given_back_by_warps: Warps,
}
