/*
 * pagelift: lifts the partly filled last block of an imported prompt into one writable GPU page, mirrors the rows that
 * are generated from then on, and gathers blocks and rows between host and GPU. This is its C interface; the words are
 * explained in README.md, and docs/embedding.md has the calls in C beside those in Rust and Python. C11, or C++11 and
 * later.
 *
 * What every call answers is a pagelift_status. Results go where the last arguments point, and are written only where
 * it answers PAGELIFT_OK; where it answers PAGELIFT_CAPACITY for want of room, `needed` or the count beside it is how
 * much there should be. pagelift_last_error says in words what was wrong with the calling thread's last failed call.
 *
 * Handles (pagelift_backend, pagelift_plan and so on) are numbers that the library compares with its tables before it
 * touches anything. 0, a number that was made up, a handle of something else and one that was freed are errors:
 * PAGELIFT_INVALID_HANDLE, PAGELIFT_WRONG_KIND, PAGELIFT_STALE_HANDLE. Keys of a geometry (pagelift_group_key and so
 * on) are numbers too, live as long as their geometry, and are not freed; one of another geometry is PAGELIFT_GEOMETRY.
 * 'Those of handles' and 'those of keys' below are these.
 *
 * Errors. Any call may answer of what it is handed: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED; PAGELIFT_WRONG_SIZE of a
 * struct; PAGELIFT_BAD_TEXT of text; PAGELIFT_BAD_VALUE of a number that is none of its enum's, of a reserved field that
 * is not 0, and of a count that no array has; those of handles and of keys; and PAGELIFT_BUSY. One that makes something
 * may answer PAGELIFT_TOO_MANY_HANDLES, one that calls a GPU's driver PAGELIFT_DRIVER and PAGELIFT_CONTEXT_LOST. What else
 * a call answers is named there, at 'Errors'. Memory of any size that cannot be had is PAGELIFT_OUT_OF_MEMORY; where not
 * even some bytes can be had for bookkeeping, or for what a text says, the process ends.
 *
 * Threads. Any call may be made on any thread. Two calls that change one object do not wait for each other: the second
 * answers PAGELIFT_BUSY and has done nothing. Calls that only look (state, is_done, report, counters, info, jobs,
 * bytes) go beside each other. A launcher uses its registry: stage looks at it, launch and record change it, so that
 * launchers which share a registry are launched by one thread at a time. Each thread has its own last error.
 *
 * Captures (CUDA graphs). pagelift_launcher_record is made for a stream that is being captured. State, is_done, report,
 * counters and all calls on plans and reservations call no driver and may be made at any time. Stage, launch, wait and
 * set_stream are refused on a stream that is being captured (PAGELIFT_CAPTURE), and disturb no capture of another one.
 * What is said of other calls is said there.
 *
 * What the caller promises of every pointer that is neither null nor misaligned (those are errors:
 * PAGELIFT_NULL_POINTER and PAGELIFT_MISALIGNED, but where null is allowed):
 * 1. It points to as many items of its type as the count beside it says, to be read, or to be written where it is not
 *    const; text ends with a 0.
 * 2. Until the call returns, no other thread writes what is read, nor touches what is written.
 * 3. A struct that has a `size` begins with it, set to sizeof of the struct: also one that the call fills. Such structs
 *    may grow; a library knows the sizes of earlier headers. Those without stay as they are.
 * Calls whose caller promises more say so by number.
 *
 * No call throws or unwinds. A mistake of this library's is PAGELIFT_INTERNAL.
 */


#ifndef PAGELIFT_H
#define PAGELIFT_H

/* Made by `cargo xtask c --header` from the sources of pagelift-c. Do not edit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The number of this interface. It changes when a program that was compiled with an earlier header would no longer
// work; the shared library is called `libpagelift.so.N` by it.
#define PAGELIFT_ABI 1

// A count that nobody keeps.
#define PAGELIFT_UNCOUNTED UINT64_MAX

// An offset that means: after the one before.
#define PAGELIFT_AFTER UINT64_MAX

// A page, or a block, that means: none.
#define PAGELIFT_NONE UINT32_MAX

// What a call answers. Numbers stay as they are; new ones may come. Where a call does not answer PAGELIFT_OK it has changed
// nothing that its description does not name, and written nothing to what it was given, but for how much room it takes
// where there is too little. `pagelift_last_error` says more.
enum pagelift_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  PAGELIFT_OK = 0,
  // A pointer is null that may not be.
  PAGELIFT_NULL_POINTER = 1,
  // A pointer is not aligned as its type wants.
  PAGELIFT_MISALIGNED = 2,
  // `size` of a struct is none that this library knows: set it to `sizeof` of the struct, with the library's own header.
  PAGELIFT_WRONG_SIZE = 3,
  // A number is none of those that it may be.
  PAGELIFT_BAD_VALUE = 4,
  // Text is not UTF-8.
  PAGELIFT_BAD_TEXT = 5,
  // A handle, or a key, that this library never gave, or 0.
  PAGELIFT_INVALID_HANDLE = 20,
  // A handle of something else.
  PAGELIFT_WRONG_KIND = 21,
  // A handle of what was freed.
  PAGELIFT_STALE_HANDLE = 22,
  // Another thread is in a call with it: ask again later. Nothing waits here.
  PAGELIFT_BUSY = 23,
  // It cannot be freed or released before what uses it.
  PAGELIFT_IN_USE = 24,
  // There are no more handles: 1,048,512 objects of a kind at one time, or 16,777,216 keys of a geometry.
  PAGELIFT_TOO_MANY_HANDLES = 25,
  // A plan, or a launcher, of another type than the call is for; or a key of another kind or direction.
  PAGELIFT_WRONG_PLAN = 26,
  // A layout that cannot be.
  PAGELIFT_LAYOUT = 100,
  // Prompt arithmetic that cannot be.
  PAGELIFT_SPAN = 200,
  // Pools, sides or groups that do not fit together.
  PAGELIFT_GEOMETRY = 300,
  // A plan that may not be. The plan is as it was.
  PAGELIFT_PLAN = 400,
  // More than a plan has room for. The plan is as it was.
  PAGELIFT_CAPACITY = 401,
  // An event that a lifecycle does not take.
  PAGELIFT_LIFECYCLE = 500,
  // Memory that is not registered, was released, or overlaps other memory.
  PAGELIFT_REGISTRY = 600,
  // There is no memory for it.
  PAGELIFT_OUT_OF_MEMORY = 601,
  // A launcher that cannot take a plan. Nothing was enqueued.
  PAGELIFT_LAUNCH = 700,
  // Every staging slot holds a plan that may still run: launch, or wait.
  PAGELIFT_RING_FULL = 701,
  // A backend that cannot run.
  PAGELIFT_BACKEND = 800,
  // There is no NVIDIA driver, or one that is too old.
  PAGELIFT_NO_DRIVER = 801,
  // A call that is not allowed while a stream is being captured, or that needs a capture where there is none.
  PAGELIFT_CAPTURE = 802,
  // The driver refused a call.
  PAGELIFT_DRIVER = 803,
  // A fault took the GPU's context and all memory of it: restart the process.
  PAGELIFT_CONTEXT_LOST = 804,
  // A mistake of this library's. What the call was made on can only be freed.
  PAGELIFT_INTERNAL = 900,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_status pagelift_status;
#else
typedef int32_t pagelift_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What became of a staged plan.
enum pagelift_ticket_state
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Staged; a launch has not finished with it.
  PAGELIFT_TICKET_STATE_PENDING = 0,
  // Carried out: its last copy is complete and visible to the host.
  PAGELIFT_TICKET_STATE_DONE = 1,
  // Overwritten before a launch saw it: plan its work again.
  PAGELIFT_TICKET_STATE_SUPERSEDED = 2,
  // Its table was of another version, and nothing was moved.
  PAGELIFT_TICKET_STATE_REFUSED = 3,
  // A fault took the GPU's context before.
  PAGELIFT_TICKET_STATE_LOST = 4,
  // Settled too long ago to be remembered, or another launcher's.
  PAGELIFT_TICKET_STATE_UNKNOWN = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_ticket_state pagelift_ticket_state;
#else
typedef uint32_t pagelift_ticket_state;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where an import's blocks arrive.
enum pagelift_arrival
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // In the host pool; the last block is lifted from there.
  PAGELIFT_ARRIVAL_HOST_THEN_LIFT = 0,
  // In the host pool; nothing is lifted, because the writable page begins empty.
  PAGELIFT_ARRIVAL_HOST = 1,
  // On the device.
  PAGELIFT_ARRIVAL_DEVICE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_arrival pagelift_arrival;
#else
typedef uint32_t pagelift_arrival;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// In which order the window of a convolution lies.
enum pagelift_conv_order
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Nobody said.
  PAGELIFT_CONV_ORDER_UNSAID = 0,
  // (state_len, dim): all channels of a token together. The usual one.
  PAGELIFT_CONV_ORDER_SD = 1,
  // (dim, state_len): all tokens of a channel together.
  PAGELIFT_CONV_ORDER_DS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_conv_order pagelift_conv_order;
#else
typedef uint32_t pagelift_conv_order;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which way a plan copies.
enum pagelift_direction
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // From the host to the device.
  PAGELIFT_DIRECTION_HOST_TO_DEVICE = 0,
  // From the device to the host.
  PAGELIFT_DIRECTION_DEVICE_TO_HOST = 1,
  // On the device.
  PAGELIFT_DIRECTION_DEVICE_TO_DEVICE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_direction pagelift_direction;
#else
typedef uint32_t pagelift_direction;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where heads are in a page of dense K and V.
enum pagelift_head_order
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Inside rows.
  PAGELIFT_HEAD_ORDER_NHD = 0,
  // Outside.
  PAGELIFT_HEAD_ORDER_HND = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_head_order pagelift_head_order;
#else
typedef uint32_t pagelift_head_order;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which kind a layout or a group is of.
enum pagelift_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Pages of rows, one for each token or group of tokens.
  PAGELIFT_KIND_PAGED = 0,
  // One page for each request, overwritten in turn.
  PAGELIFT_KIND_RING = 1,
  // One page for each request, copied whole or not at all.
  PAGELIFT_KIND_STATE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_kind pagelift_kind;
#else
typedef uint32_t pagelift_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether K and V lie together.
enum pagelift_kv_regions
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // K, then V, in one page.
  PAGELIFT_KV_REGIONS_PACKED = 0,
  // Two regions with bases of their own.
  PAGELIFT_KV_REGIONS_SEPARATE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_kv_regions pagelift_kv_regions;
#else
typedef uint32_t pagelift_kv_regions;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where scales of quantised K and V are.
enum pagelift_kv_scales
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Not in pages.
  PAGELIFT_KV_SCALES_OUTSIDE = 0,
  // An f32 for each token and head at the end of the page.
  PAGELIFT_KV_SCALES_PER_TOKEN_HEAD = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_kv_scales pagelift_kv_scales;
#else
typedef uint32_t pagelift_kv_scales;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where a group's imported blocks arrive.
enum pagelift_landing
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // In host blocks.
  PAGELIFT_LANDING_HOST = 0,
  // In pages.
  PAGELIFT_LANDING_DEVICE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_landing pagelift_landing;
#else
typedef uint32_t pagelift_landing;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A kind of a runner's work.
enum pagelift_lane
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Lifts.
  PAGELIFT_LANE_LIFT = 0,
  // States and pages that are written back.
  PAGELIFT_LANE_WRITE_BACK = 1,
  // Rows that are mirrored.
  PAGELIFT_LANE_MIRROR = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_lane pagelift_lane;
#else
typedef uint32_t pagelift_lane;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What of a group that landed on the host is lifted.
enum pagelift_lift
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Nothing.
  PAGELIFT_LIFT_NONE = 0,
  // Of paged groups: the writable page.
  PAGELIFT_LIFT_TAIL = 1,
  // Of paged groups: all pages.
  PAGELIFT_LIFT_ALL = 2,
  // Of rings and states: the page.
  PAGELIFT_LIFT_STATE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_lift pagelift_lift;
#else
typedef uint32_t pagelift_lift;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which memory.
enum pagelift_memory
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Of the host: pinned and mapped where the backend is a GPU.
  PAGELIFT_MEMORY_HOST = 0,
  // Of the device. On the CPU that is ordinary memory too.
  PAGELIFT_MEMORY_DEVICE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_memory pagelift_memory;
#else
typedef uint32_t pagelift_memory;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What becomes of a prompt's partly filled last block.
enum pagelift_policy
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Received and lifted into one page: decoding resumes with a single-token forward.
  PAGELIFT_POLICY_LIFT_TAIL = 0,
  // Left out: the decoder computes its tokens again.
  PAGELIFT_POLICY_ROUND_DOWN = 1,
  // On the device with all blocks before it, where there are pages enough; otherwise it is lifted.
  PAGELIFT_POLICY_LAND_ON_DEVICE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_policy pagelift_policy;
#else
typedef uint32_t pagelift_policy;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether groups keep recurrent state.
enum pagelift_recurrence
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Attention only: all tokens are imported, and the last is computed again for its logits.
  PAGELIFT_RECURRENCE_NONE = 0,
  // Some group keeps recurrent state: the last token is not imported, for a state must not absorb it twice.
  PAGELIFT_RECURRENCE_STATE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_recurrence pagelift_recurrence;
#else
typedef uint32_t pagelift_recurrence;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What host blocks give back of all that their tokens have left behind.
enum pagelift_restores
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // All, in every group, to whoever finds them.
  PAGELIFT_RESTORES_PREFIXES = 0,
  // All, to the request that they are of: some group has a block for each request, as rings do, or states that land on
  // the device. Nobody else finds a block.
  PAGELIFT_RESTORES_REQUESTS = 1,
  // Not all: some group is on the device alone. Nobody finds a block, and a lost rank takes preempted requests with it.
  PAGELIFT_RESTORES_NOTHING = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_restores pagelift_restores;
#else
typedef uint32_t pagelift_restores;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which rows of a partly filled page are lifted.
enum pagelift_tail_rows
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // All of the final block; rows after the imported ones mean nothing.
  PAGELIFT_TAIL_ROWS_WHOLE = 0,
  // The imported rows; others are left alone.
  PAGELIFT_TAIL_ROWS_EXACT = 1,
  // The imported rows, and zeros after them.
  PAGELIFT_TAIL_ROWS_EXACT_ZEROED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pagelift_tail_rows pagelift_tail_rows;
#else
typedef uint32_t pagelift_tail_rows;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What runs kernels. Several registries, launchers and threads may share one; it lives as long as they do, whenever its
// handle is freed.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_backend;

// Facts of a GPU.
typedef struct {
  // sizeof(pagelift_gpu_facts).
  uint32_t size;
  // Multiprocessors: the most workers that a launch can use.
  uint32_t multiprocessors;
  // Bytes of its memory.
  uint64_t memory_bytes;
  // The driver's version of CUDA: major.
  uint32_t driver_major;
  // Minor.
  uint32_t driver_minor;
} pagelift_gpu_facts;

// Collects pools, groups, sides and routes. A call that fails leaves it as it was.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_geometry_builder;

// Where a region lies.
typedef struct {
  // Where kernels reach its first byte. Of host memory on a GPU that need not be where the host does.
  uint64_t address;
  // Its size.
  uint64_t bytes;
} pagelift_region;

// Memory whose blocks share one numbering.
typedef struct {
  // sizeof(pagelift_pool_spec).
  uint32_t size;
  // A pagelift_memory.
  uint32_t memory;
  // Its name, for messages.
  const char *name;
  // Blocks: ids are 0 to `blocks - 1`; at most 2^31.
  uint32_t blocks;
  // Blocks of one region, where there is a region for each extent; 0 means all.
  uint32_t blocks_per_extent;
  // The regions that its blocks lie in.
  const pagelift_region *regions;
  // How many.
  size_t regions_count;
} pagelift_pool_spec;

// A pool of a geometry.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_pool_id;

// What a block or page of one layer looks like. Layouts do not change; they are copied into whatever uses them.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_layout;

// Where a group's blocks lie in one pool, and what one of them looks like there.
//
// Region `r` of block `b` of layer `l` begins at the base of layer `l`, region `r` and extent `b / blocks_per_extent`, plus
// `(b % blocks_per_extent) * block_stride`. Bases are said in one of two ways:
// packed: `extents` (and `layer_offsets`), a base is their sum; or layer by layer: `layers`.
typedef struct {
  // sizeof(pagelift_side_spec).
  uint32_t size;
  // 0.
  uint32_t reserved;
  // The pool.
  pagelift_pool_id pool;
  // The layout of a layer's block.
  pagelift_layout layout;
  // Bytes from one block of a layer to the next.
  uint64_t block_stride;
  // Packed: the address of each extent of the pool.
  const uint64_t *extents;
  // How many; 0 where layers are listed.
  size_t extents_count;
  // Packed: bytes from an extent's start to block 0 of each layer (of each region of each layer, layers outermost).
  const uint64_t *layer_offsets;
  // How many.
  size_t layer_offsets_count;
  // Layer by layer: the address of block 0 of each layer (of each region of each layer, layers outermost).
  const uint64_t *layers;
  // How many; 0 where extents are listed.
  size_t layers_count;
} pagelift_side_spec;

// Layers that share one layout and one block table.
typedef struct {
  // sizeof(pagelift_group_spec).
  uint32_t size;
  // Layers.
  uint32_t layers;
  // The name by which it pairs with the other engine's group.
  const char *name;
  // A pagelift_landing.
  uint32_t landing;
  // A pagelift_lift.
  uint32_t lift;
  // Its side on the host, or null.
  const pagelift_side_spec *host;
  // Its side on the device, or null.
  const pagelift_side_spec *device;
} pagelift_group_spec;

// A group of a geometry.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_group_key;

// A side of a group, for routes and digests.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_side_key;

// A way between two sides of a group, for gathers of blocks.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_route_key;

// A way into a compact buffer, for gathers of rows by index lists.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_compact_route_key;

// A side that digests may read.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_digest_key;

// Pools, groups, sides and routes, checked, with the tables that kernels read. Plans are made for one, and keep it.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_geometry;

// Knows every region of memory that kernels may touch. Memory is registered before anything is bound to it.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_registry;

// What one launch copies: filled, staged by a launcher, cleared and filled again. A call that fails leaves it as it was.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_plan;

// How a launcher stages and launches.
typedef struct {
  // sizeof(pagelift_launcher_options).
  uint32_t size;
  // Staging slots, 1 to 64: how many plans may be in flight.
  uint32_t slots;
  // The most multiprocessors of a GPU, or warps on a CPU, that a launch may use; 0 leaves it to the backend.
  uint32_t workers;
  // 1 where a staged plan runs in every launch until the next one is staged, and its ticket, done when it has run once, says
  // nothing of later runs; 0 where only in the first.
  uint32_t repeat;
} pagelift_launcher_options;

// Stages plans of one type, and launches them on one stream.
//
// A staged plan takes effect in exactly one launch, or one replay of a graph that the launcher was recorded into.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_launcher;

// The number of one staged plan, counted from 1 by each launcher. Another launcher does not know it.
typedef struct {
  // The launcher that gave it.
  uint64_t launcher;
  // Its number.
  uint64_t number;
} pagelift_ticket;

// What a launch reported of one plan.
typedef struct {
  // sizeof(pagelift_report).
  uint32_t size;
  // Rows that a row plan copied; 0 for page plans.
  uint32_t rows;
  // Entries of slot mappings that were rightly left alone: padding, pages without a mirror, tokens that were not accepted.
  uint32_t skipped;
  // Entries on the device that made no sense: skipped too, never written somewhere else.
  uint32_t bad;
} pagelift_report;

// Which of a plan's digests a call added.
typedef struct {
  // Tells the fillings of plans apart.
  uint64_t filling;
  // Its first job.
  uint32_t first;
  // One past its last.
  uint32_t end;
} pagelift_digest_number;

// Sums since a launcher was bound: software accounting of what plans said and kernels reported, not what a bus carried.
// What nobody counts is PAGELIFT_UNCOUNTED, never 0.
typedef struct {
  // sizeof(pagelift_counters).
  uint32_t size;
  // 0.
  uint32_t reserved;
  // Plans staged.
  uint64_t staged;
  // Launches made, those that had nothing to do included; replays of graphs are not among them.
  uint64_t launches;
  // Jobs of the staged plans.
  uint64_t jobs;
  // Bytes that the staged plans copy, or that digests read; uncounted for row plans.
  uint64_t bytes;
  // Plans that were carried out.
  uint64_t done;
  // Plans that were overwritten before they ran.
  uint64_t superseded;
  // Plans whose table had another version.
  uint64_t refused;
  // Rows copied by row plans; uncounted for page plans.
  uint64_t rows;
  // Entries of slot mappings rightly skipped; uncounted for page plans.
  uint64_t skipped;
  // Bad entries met on the device.
  uint64_t bad;
} pagelift_counters;

// A run of rows at a place of its own in a page.
typedef struct {
  // The name that pairs it with the other side's segment: UTF-8 that ends with a 0.
  const char *name;
  // Bytes from the start of its region to row 0; of PAGELIFT_AFTER, it follows the segment before.
  uint64_t offset;
  // Bytes of a row.
  uint32_t row_bytes;
  // Bytes from one row to the next. 0 means `row_bytes`. Of a segment that follows another: `row_bytes` and the layout's
  // `row_padding`, and this is 0.
  uint32_t row_stride;
  // The region that `offset` counts from the start of: 0 where K and V do not lie apart.
  uint32_t region;
  // 0.
  uint32_t reserved;
} pagelift_segment;

// Pages of rows.
typedef struct {
  // sizeof(pagelift_paged_layout_spec).
  uint32_t size;
  // Token slots of a page.
  uint32_t block_tokens;
  // Tokens that share one row; 0 means 1.
  uint32_t tokens_per_row;
  // Unused bytes after each row of segments that follow one another.
  uint32_t row_padding;
  // Bytes of a page where it is padded beyond its last row (of each region, where it has several); 0 where it is not.
  uint64_t page_bytes;
  // The segments of a page.
  const pagelift_segment *segments;
  // How many.
  size_t segments_count;
} pagelift_paged_layout_spec;

// Dense K and V (MHA, GQA) of one rank. None of it is ever guessed from sizes.
typedef struct {
  // sizeof(pagelift_dense_shape).
  uint32_t size;
  // KV heads.
  uint32_t heads;
  // Values of a head.
  uint32_t dim;
  // Bytes of a value.
  uint32_t value_bytes;
  // A pagelift_head_order.
  uint32_t order;
  // A pagelift_kv_regions.
  uint32_t regions;
  // A pagelift_kv_scales.
  uint32_t scales;
} pagelift_dense_shape;

// A ring.
typedef struct {
  // sizeof(pagelift_ring_layout_spec).
  uint32_t size;
  // Slots.
  uint32_t slots;
  // Bytes of a slot's row.
  uint32_t slot_bytes;
  // Unused bytes after each.
  uint32_t slot_padding;
  // Bytes of a page where it is padded; 0 where it is not.
  uint64_t page_bytes;
} pagelift_ring_layout_spec;

// A part of a state.
typedef struct {
  // The name that pairs it with the other side's part.
  const char *name;
  // Bytes from the page's start; of PAGELIFT_AFTER, it follows the part before. Either all parts follow one another,
  // or none.
  uint64_t offset;
  // Its size.
  uint32_t bytes;
  // 0.
  uint32_t reserved;
} pagelift_state_part;

// A recurrent state.
typedef struct {
  // sizeof(pagelift_state_layout_spec).
  uint32_t size;
  // A pagelift_conv_order.
  uint32_t conv_order;
  // Bytes of a page where it is padded; 0 where it is not.
  uint64_t page_bytes;
  // The parts.
  const pagelift_state_part *parts;
  // How many.
  size_t parts_count;
} pagelift_state_layout_spec;

// The shape of a gated-delta-net layer.
typedef struct {
  // sizeof(pagelift_gdn_shape).
  uint32_t size;
  // Channels of the convolution, over all ranks.
  uint32_t conv_dim;
  // Value heads, over all ranks.
  uint32_t v_heads;
  // Values of a value head.
  uint32_t v_dim;
  // Values of a key head.
  uint32_t k_dim;
  // Speculative tokens: that many more convolution rows.
  uint32_t spec;
  // Tensor-parallel ranks: at least 1.
  uint32_t tp;
} pagelift_gdn_shape;

// The shape of a Mamba2 layer.
typedef struct {
  // sizeof(pagelift_ssm_shape).
  uint32_t size;
  // Width of the convolution.
  uint32_t kernel;
  // Inner channels, over all ranks.
  uint32_t inner;
  // Groups of B and C, over all ranks.
  uint32_t groups;
  // Values of the state.
  uint32_t state;
  // Heads, over all ranks.
  uint32_t heads;
  // Values of a head.
  uint32_t head_dim;
  // Speculative tokens.
  uint32_t spec;
  // Tensor-parallel ranks: at least 1.
  uint32_t tp;
} pagelift_ssm_shape;

// The shape of a PLE short convolution.
typedef struct {
  // sizeof(pagelift_ple_shape).
  uint32_t size;
  // Width of the convolution.
  uint32_t kernel;
  // Tokens of an n-gram.
  uint32_t ngram;
  // Hidden size.
  uint32_t hidden;
  // Channels of a hidden value.
  uint32_t hc;
  // Speculative tokens.
  uint32_t spec;
} pagelift_ple_shape;

// Sizes of a layout.
typedef struct {
  // sizeof(pagelift_layout_facts).
  uint32_t size;
  // A pagelift_kind.
  uint32_t kind;
  // Bytes of one layer's page: all regions, and the padding inside them.
  uint64_t page_bytes;
  // Token slots of a page; of a ring its slots, of a state 1.
  uint64_t block_tokens;
  // Tokens that share one row; 1 of rings and states.
  uint64_t tokens_per_row;
  // Rows of a page; of a ring its slots, of a state 0, which has none.
  uint32_t rows_per_block;
  // Regions of a page that have bases of their own.
  uint32_t regions;
  // Bytes of the first region.
  uint64_t region_bytes;
} pagelift_layout_facts;

// What a lifecycle has room for, and whose it is: plain data, for the scheduler and, as it is, for each rank's runner.
typedef struct {
  // sizeof(pagelift_lifecycle_options).
  uint32_t size;
  // Ranks: 1 to 64.
  uint32_t ranks;
  // The ranks that write host blocks, a bit for each; 0 means all: right where each has its own heads. One where all
  // have the same rows.
  uint64_t writers;
  // Tokens of a block and of a page.
  uint32_t block_tokens;
  // A pagelift_recurrence.
  uint32_t recurrence;
  // Requests at one time.
  uint32_t requests;
  // Host blocks.
  uint32_t blocks;
  // Pages.
  uint32_t pages;
  // Sealed pages that stay behind each one that is written.
  uint32_t keep;
  // Steps after which a draft layer's rows are final: 0 to 2.
  uint32_t draft_lag;
  // How often a lift that failed is tried again.
  uint32_t retries;
  // A pagelift_restores.
  uint32_t restores;
  // The most blocks of a request, where some group has pages for no more; 0 where each has pages for all.
  uint32_t positions;
} pagelift_lifecycle_options;

// Who may see which block, and what may be used again, of all requests of an engine: one, at its scheduler.
//
// It takes events and gives effects; ranks are told by orders, and answer with events, which a runner does. It has no
// clock, and does no input or output. Events, effects, orders and what is known of a request are JSON, with the names
// that they have in logs and in Python: {"event": "begin", "request": R, "tokens": 1}, where R is what {"effect":
// "admitted", "request": R} brought. The documentation of the Rust library's `lifecycle::Event`, `Effect` and `Order`
// lists them.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_lifecycle;

// What of a lifecycle is free.
typedef struct {
  // sizeof(pagelift_lifecycle_room).
  uint32_t size;
  // 0.
  uint32_t reserved;
  // Requests that are not over.
  uint64_t requests;
  // Pages that nobody holds.
  uint64_t free_pages;
  // Blocks that nobody uses and nobody finds.
  uint64_t free_blocks;
  // Blocks that a request could have: free ones, and those that others find and nobody uses.
  uint64_t available_blocks;
} pagelift_lifecycle_room;

// Names a registered region. Numbers are not used again.
typedef struct {
  // Its registry.
  uint64_t registry;
  // Its number there.
  uint64_t number;
} pagelift_region_id;

// A host pool that is registered in chunks.
typedef struct {
  // sizeof(pagelift_host_pool_spec).
  uint32_t size;
  // Its blocks.
  uint32_t blocks;
  // Bytes of a block, all layers together.
  uint64_t block_bytes;
  // Bytes of a chunk, at most: up to 256 GiB; 0 means 16 GiB. A chunk never cuts a block.
  uint64_t chunk_bytes;
  // Threads that register chunks, at most 256; 0 means one a processor, and no more than 16.
  uint32_t threads;
  // 0.
  uint32_t reserved;
} pagelift_host_pool_spec;

// How much a plan of pages, or of digests, or a reserved import, has room for. All memory is allocated when the plan is made.
typedef struct {
  // sizeof(pagelift_plan_capacity).
  uint32_t size;
  // Jobs, about one for each import and group; at most 2^20.
  uint32_t jobs;
  // Blocks of groups that are lifted or gathered whole; at most 2^24.
  uint32_t list_entries;
} pagelift_plan_capacity;

// Which tokens of a prompt are imported, and the first that the decoder computes.
typedef struct {
  // Tokens of the prompt.
  uint64_t prompt_tokens;
  // Tokens imported.
  uint64_t imported_tokens;
  // The first token that the decoder computes.
  uint64_t resume_at;
} pagelift_prompt_span;

// The blocks and pages of one group of an import.
//
// A paged group's blocks are those from the prompt's first on, in order, up to that of `resume_at`; its pages are the
// writable one where it lifts the tail, and all up to it where it lifts all. A ring or a state has one block and one
// page.
typedef struct {
  // The group.
  pagelift_group_key group;
  // Its host blocks.
  const uint32_t *blocks;
  // How many.
  size_t blocks_count;
  // Its pages.
  const uint32_t *pages;
  // How many.
  size_t pages_count;
  // 1 where its blocks landed on the device this time, though it usually lands on the host: nothing is lifted, and
  // `blocks` is empty. 0 otherwise.
  uint32_t landed;
  // 0.
  uint32_t reserved;
} pagelift_import_group;

// One prompt's imported blocks, group by group.
typedef struct {
  // sizeof(pagelift_import).
  uint32_t size;
  // 0.
  uint32_t reserved;
  // Its tokens.
  pagelift_prompt_span span;
  // Its groups.
  const pagelift_import_group *groups;
  // How many.
  size_t groups_count;
} pagelift_import;

// Where an import that is lifted over several plans goes on. All 0 is the beginning.
typedef struct {
  // Groups that are lifted.
  uint64_t groups;
  // Steps of the next one that are.
  uint32_t steps;
  // 1 where nothing is left to lift.
  uint32_t is_finished;
} pagelift_lift_progress;

// Imports between reservation and release. An import is reserved when its host blocks and pages are known, before
// anything is received: all that can be wrong with its lists is found then, once, and no two imports lift into one
// page.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_reservations;

// A reserved import, until it is released. Its number is used again; the id is not.
typedef struct {
  // Its reservations.
  uint64_t reservations;
  // How often its number was given before.
  uint64_t generation;
  // Its place among the imports that are reserved at one time.
  uint32_t number;
  // 0.
  uint32_t reserved;
} pagelift_import_id;

// How much a plan of rows has room for.
typedef struct {
  // sizeof(pagelift_row_capacity).
  uint32_t size;
  // Bindings; at most 2^16.
  uint32_t jobs;
  // Page-map changes of one staging; at most 2^24.
  uint32_t changes;
} pagelift_row_capacity;

// The device arrays that say which rows a step wrote. Addresses are fixed when a graph is captured; contents are read
// by each replay. All lie in registered memory of the device.
typedef struct {
  // sizeof(pagelift_row_binding).
  uint32_t size;
  // Bytes of an entry of `slots`: 8 (int64_t) or 4 (int32_t).
  uint32_t width;
  // The slot mapping: an entry for each token, the slot its row was written to. Slot `s` is slot `s % page_slots` of page
  // `s / page_slots`; a negative one is padding.
  uint64_t slots;
  // int32_t, the number of valid entries; 0: all are.
  uint64_t count;
  // int32_t, `requests + 1` of them, where each request's tokens begin, not falling; the last is the number of
  // tokens. 0: no requests.
  uint64_t query_starts;
  // int32_t, `requests` of them, the accepted tokens of each request, a prefix; 0: all are. Only with `query_starts`.
  uint64_t accepted;
  // Entries that there is room for in `slots`.
  uint32_t capacity;
  // Requests; 0 without `query_starts`.
  uint32_t requests;
  // A page that means 'no page', where the engine has one; PAGELIFT_NONE where it has none.
  uint32_t null_page;
  // 0.
  uint32_t reserved;
} pagelift_row_binding;

// Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.
//
// A group that lifts its tail has `blocks` by the lifecycle's blocks and `pages` by its pages. One that has all of its
// pages on the device has `each` pages for each slot of a request, by position. A ring has both by the slots of
// requests, a state its pages by the slots of requests.
typedef struct {
  // The group.
  pagelift_group_key group;
  // Its host blocks.
  const uint32_t *blocks;
  // How many.
  size_t blocks_count;
  // Its pages.
  const uint32_t *pages;
  // How many.
  size_t pages_count;
  // Pages for each slot of a request, of a paged group that is whole on the device; 0 for others.
  uint32_t each;
  // 0.
  uint32_t reserved;
} pagelift_group_frames;

// How a runner plans, stages and launches.
typedef struct {
  // sizeof(pagelift_runner_options).
  uint32_t size;
  // The rank: one of the lifecycle's.
  uint32_t rank;
  // The options of the lifecycle whose orders it takes, as `pagelift_lifecycle_new` has them: whether this rank writes host
  // blocks, its `writers` say.
  const pagelift_lifecycle_options *lifecycle;
  // A pagelift_tail_rows: which rows of a partly filled page are lifted.
  uint32_t mode;
  // How many steps the host may be ahead: 1 to 64.
  uint32_t slots;
  // The room of its plans of pages; null means as in `pagelift_page_plan_new`.
  const pagelift_plan_capacity *pages;
  // The room of its plan of rows; null means as in `pagelift_row_plan_new`. There is always room for a change of each
  // entry of the page maps where the rank writes host blocks.
  const pagelift_row_capacity *rows;
  // The most multiprocessors of lifts; 0 leaves it to the backend.
  uint32_t lift_workers;
  // Those of what is written back.
  uint32_t write_back_workers;
  // Those of mirrors.
  uint32_t mirror_workers;
  // 0.
  uint32_t reserved;
} pagelift_runner_options;

// One rank's steps: what they lift, mirror and write back, by one launch each.
//
// In each step the rank hears its orders, stages its plans, and launches them around its forward, or replays the graph
// that they were recorded into. It polls when it likes, and its events go to the scheduler's lifecycle. None of it
// waits for a launch.
typedef struct {
  // Meaningless but to this library; 0 is none.
  uint64_t value;
} pagelift_runner;

// What a step's plans have in them.
typedef struct {
  // sizeof(pagelift_staged).
  uint32_t size;
  // 0, or the status that says why some of it could not be planned or staged: the rank answers that it has failed,
  // and the step goes on without. `pagelift_last_error` has the message.
  int32_t failed;
  // Requests that are lifted.
  uint64_t lifts;
  // States and pages that are written back.
  uint64_t write_backs;
  // Requests whose step is mirrored.
  uint64_t mirrors;
} pagelift_staged;

// A function of the caller's that replays a graph, given what it has asked for: 0 means that it has done so.
typedef int32_t (*pagelift_replay)(void *user);

// A prompt's span in blocks of one size.
typedef struct {
  // Token slots of a block.
  uint64_t block_tokens;
  // Token slots of the received blocks.
  uint64_t capacity;
  // Slots of the received blocks that hold no imported token.
  uint64_t holes;
  // Imported tokens in the writable page, possibly none.
  uint64_t tail_tokens;
  // Blocks received.
  uint32_t received;
  // The writable page: the one that `resume_at` lies in.
  uint32_t tail_page;
  // Blocks up to the writable page, that one included.
  uint32_t endpoints;
  // 0.
  uint32_t reserved;
} pagelift_block_span;

// What a policy decided for one import.
typedef struct {
  // sizeof(pagelift_decision).
  uint32_t size;
  // A pagelift_arrival.
  uint32_t arrival;
  // What is imported, and where decoding resumes.
  pagelift_prompt_span span;
  // The same in blocks.
  pagelift_block_span blocks;
  // Prompt tokens that are left to the decoder: 1 where it only replays or computes the last.
  uint64_t left;
  // Pages that the import needs on the device before it starts; the writable one is among them.
  uint32_t pages;
  // 0.
  uint32_t reserved;
} pagelift_decision;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, such as "0.1.0": text that lives as long as the library.
const char *pagelift_version(void);

// The number of the library's interface: compare it with PAGELIFT_ABI of the header.
uint32_t pagelift_abi(void);

// Opens the CPU as a backend: kernels run on `threads` worker threads (at most 1024; 0 means one for each processor),
// and a launch is complete when the call returns. 'Device' memory is ordinary memory. Threads do not survive fork():
// open it in the process that uses it. Free it by `pagelift_backend_free`.
//
// Errors: PAGELIFT_BACKEND where the threads cannot be started.
pagelift_status pagelift_cpu_open(uint32_t threads,
                                  pagelift_backend *backend);

// Opens the GPU number `ordinal`, as the driver counts, as a backend, in its primary context: that of the CUDA runtime
// and of PyTorch, which `cuDevicePrimaryCtxRetain` gives. Streams and device memory that are handed over belong to that
// context; it need not be current in the calling thread. The driver's library is opened here: programs start without
// one. Loading the kernels may take a second. Free it by `pagelift_backend_free`.
//
// Errors: PAGELIFT_NO_DRIVER; PAGELIFT_BACKEND where there is no such GPU, or one that cannot run the kernels (compute
// capability below 8.0); PAGELIFT_DRIVER. Not while any stream of this GPU is being captured.
pagelift_status pagelift_cuda_open(uint32_t ordinal,
                                   pagelift_backend *backend);

// Frees a handle of a backend. What uses the backend keeps it.
//
// Errors: those of handles.
pagelift_status pagelift_backend_free(pagelift_backend backend);

// Tells the name of a backend, "cpu" or "cuda", as `pagelift_last_error` tells a message.
//
// Errors: those of handles.
pagelift_status pagelift_backend_name(pagelift_backend backend,
                                      char *buffer,
                                      size_t room,
                                      size_t *needed);

// Tells the name of a GPU, such as "NVIDIA H200", as `pagelift_last_error` tells a message.
//
// Errors: PAGELIFT_BACKEND for the CPU, those of handles.
pagelift_status pagelift_backend_device(pagelift_backend backend,
                                        char *buffer,
                                        size_t room,
                                        size_t *needed);

// Tells facts of a GPU. Set `info->size` before.
//
// Errors: PAGELIFT_BACKEND for the CPU, PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_backend_info(pagelift_backend backend,
                                      pagelift_gpu_facts *info);

// Makes a builder of a geometry. It is freed by `pagelift_geometry_builder_build`, or by `pagelift_geometry_builder_free`.
//
// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED.
pagelift_status pagelift_geometry_builder_new(pagelift_geometry_builder *builder);

// Adds a pool. Groups that alias one slab name one pool; groups with memory of their own have a pool each.
//
// Errors: PAGELIFT_GEOMETRY, PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_geometry_builder_pool(pagelift_geometry_builder builder,
                                               const pagelift_pool_spec *spec,
                                               pagelift_pool_id *pool);

// Adds a group with its main sides, whose layouts say of which kind it is.
//
// Errors: PAGELIFT_GEOMETRY; PAGELIFT_WRONG_PLAN where the two sides' layouts are of different kinds; PAGELIFT_BAD_VALUE,
// PAGELIFT_WRONG_SIZE, those of handles and keys.
pagelift_status pagelift_geometry_builder_group(pagelift_geometry_builder builder,
                                                const pagelift_group_spec *spec,
                                                pagelift_group_key *group);

// Adds another side of a group: a second arrangement of the same rows, for gathers.
//
// Errors: as `pagelift_geometry_builder_group`.
pagelift_status pagelift_geometry_builder_side(pagelift_geometry_builder builder,
                                               pagelift_group_key group,
                                               const pagelift_side_spec *spec,
                                               pagelift_side_key *side);

// Gives the main side of a group in `memory`.
//
// Errors: PAGELIFT_GEOMETRY where it has none there; PAGELIFT_BAD_VALUE, those of handles and keys.
pagelift_status pagelift_geometry_builder_main_side(pagelift_geometry_builder builder,
                                                    pagelift_group_key group,
                                                    uint32_t memory,
                                                    pagelift_side_key *side);

// Adds a way from one side of a group to another, or to itself for copies inside one pool. Its direction follows from
// the sides' memories.
//
// Errors: PAGELIFT_GEOMETRY; PAGELIFT_WRONG_PLAN where the sides are of different kinds; those of handles and keys.
pagelift_status pagelift_geometry_builder_route(pagelift_geometry_builder builder,
                                                pagelift_side_key source,
                                                pagelift_side_key destination,
                                                pagelift_route_key *route);

// Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most.
//
// Errors: as `pagelift_geometry_builder_route`; PAGELIFT_WRONG_PLAN for states, which have no rows.
pagelift_status pagelift_geometry_builder_compact_route(pagelift_geometry_builder builder,
                                                        pagelift_side_key source,
                                                        pagelift_side_key destination,
                                                        pagelift_compact_route_key *route);

// Lets digests read a side.
//
// Errors: PAGELIFT_GEOMETRY, those of handles and keys.
pagelift_status pagelift_geometry_builder_digest(pagelift_geometry_builder builder,
                                                 pagelift_side_key side,
                                                 pagelift_digest_key *digest);

// Checks that no two blocks share a byte, and finishes the geometry, which takes over the builder's keys. The builder
// is freed, also where the geometry cannot be (PAGELIFT_GEOMETRY); of other errors it is left. Free the geometry by
// `pagelift_geometry_free`.
//
// Errors: PAGELIFT_GEOMETRY, PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED, those of handles.
pagelift_status pagelift_geometry_builder_build(pagelift_geometry_builder builder,
                                                pagelift_geometry *geometry);

// Frees a builder that is not built.
//
// Errors: those of handles.
pagelift_status pagelift_geometry_builder_free(pagelift_geometry_builder builder);

// Gives the way by which a group's imported blocks are lifted.
//
// Errors: PAGELIFT_GEOMETRY where it lacks a main side, those of handles and keys.
pagelift_status pagelift_geometry_lift_route(pagelift_geometry geometry,
                                             pagelift_group_key group,
                                             pagelift_route_key *route);

// Gives the way by which a group's pages are written back.
//
// Errors: as `pagelift_geometry_lift_route`.
pagelift_status pagelift_geometry_spill_route(pagelift_geometry geometry,
                                              pagelift_group_key group,
                                              pagelift_route_key *route);

// Tells the token slots of a block of a group's main side in `memory`: of a ring its slots, of a state 1.
//
// Errors: PAGELIFT_GEOMETRY where it has no side there; PAGELIFT_BAD_VALUE, those of handles and keys.
pagelift_status pagelift_geometry_block_slots(pagelift_geometry geometry,
                                              pagelift_group_key group,
                                              uint32_t memory,
                                              uint64_t *slots);

// Frees a handle of a geometry. Plans that were made for it keep it, and its keys.
//
// Errors: those of handles.
pagelift_status pagelift_geometry_free(pagelift_geometry geometry);

// Counts the objects of all kinds that were made and not freed: 0 in a program that leaks none.
//
// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED. May be called at any time, also in a capture.
pagelift_status pagelift_live_handles(uint64_t *count);

// Binds a launcher for plans with the type, the geometry and the capacity of `plan`, whose pools are registered in
// `registry`. `options` may be null: 4 slots, workers as the backend likes, each plan once. It uses a stream of the
// backend's own until `pagelift_launcher_set_stream`. It takes the page map of a row plan into its keeping: that plan
// alone can be staged, and by this launcher alone. Free it by `pagelift_launcher_free`.
//
// Errors: PAGELIFT_REGISTRY where a pool is not registered; PAGELIFT_OUT_OF_MEMORY; PAGELIFT_LAUNCH for wrong options;
// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles. In a capture: another stream's is not disturbed.
pagelift_status pagelift_launcher_bind(pagelift_backend backend,
                                       pagelift_registry registry,
                                       pagelift_plan plan,
                                       const pagelift_launcher_options *options,
                                       pagelift_launcher *launcher);

// Stages a plan: the next launch or replay carries it out. A plan staged before and not launched yet is superseded.
// Page-map changes take effect at once. A hot call: it takes no lists, allocates nothing, and waits for nothing.
//
// Errors: PAGELIFT_RING_FULL where all slots are in flight; PAGELIFT_CAPTURE while the stream is being captured;
// PAGELIFT_LAUNCH for a plan of another geometry or larger capacity, or another launcher's row plan;
// PAGELIFT_WRONG_PLAN for one of another type; PAGELIFT_REGISTRY where an array is not registered; PAGELIFT_BUSY while
// another thread uses launcher, plan or registry; those of handles. What was staged before still runs then. Where the driver
// fails instead, this plan may run in its place, under no ticket, until another was staged: an empty one will do.
pagelift_status pagelift_launcher_stage(pagelift_launcher launcher,
                                        pagelift_plan plan,
                                        pagelift_ticket *ticket);

// Runs the kernel once on the staged plan. Without one that has not run yet it does nothing. On a GPU it returns before
// that has finished, in the order of the stream; on the CPU afterwards. A hot call.
//
// Errors: PAGELIFT_CAPTURE while the stream is being captured (see `pagelift_launcher_record`); PAGELIFT_REGISTRY where
// a pool or an array was released; PAGELIFT_BUSY while another thread uses the launcher, or its registry for any launch;
// those of handles: nothing ran then. PAGELIFT_CONTEXT_LOST, and where the driver fails, the plan may run all the same: wait,
// and ask its ticket.
pagelift_status pagelift_launcher_launch(pagelift_launcher launcher);

// Records the kernel into the graph that the launcher's stream is being captured into (`cuStreamBeginCapture`, in any
// mode): one node. Each replay then carries out the plan that is staged at that time, once; a replay without one does
// nothing. Give the launcher the stream before the capture begins. It may be recorded into any number of graphs.
//
// The caller promises that
// 1. the launcher is freed only when no graph with it is replayed any more, and the last replay has finished;
// 2. replays run in the order of the launcher's stream: one after the other, each after the `pagelift_launcher_stage`
//    before it and before the next one. On that stream they do;
// 3. until a replay has finished, nobody touches what its plan reads and writes: the registry does not know of replays.
//
// Errors: PAGELIFT_CAPTURE where the stream is not being captured (that of the CPU never is), and as
// `pagelift_launcher_launch`.
pagelift_status pagelift_launcher_record(pagelift_launcher launcher);

// Uses another stream from now on: a CUstream (or cudaStream_t); null is the default stream. What is enqueued there
// comes after all that is on the one before; where both are the same stream nothing is done, so that an engine may say
// its stream in every step.
//
// The caller promises that
// 1. the stream is of the backend's GPU, in its primary context, and lives as long as the launcher uses it and as the
//    registry that its launches were made with;
// 2. no capture of it begins in one thread while another thread stages or launches on it.
//
// Errors: PAGELIFT_CAPTURE while one of the two streams is being captured; PAGELIFT_BACKEND for a stream of another
// GPU, for the calling thread's own default stream (2), and for the CPU, which has no streams; those of handles. The
// launcher stays on its stream then.
pagelift_status pagelift_launcher_set_stream(pagelift_launcher launcher,
                                             void *stream);

// Uses a stream of the backend's own again. On the CPU, nothing is to be done.
//
// Errors: as `pagelift_launcher_set_stream`.
pagelift_status pagelift_launcher_set_own_stream(pagelift_launcher launcher);

// Waits until everything on its stream has finished: other calls on the launcher answer PAGELIFT_BUSY meanwhile, but
// for those that look (state, is_done, report, counters).
//
// Errors: PAGELIFT_CAPTURE while the stream is being captured, PAGELIFT_CONTEXT_LOST where some of it failed, those of
// handles.
pagelift_status pagelift_launcher_wait(pagelift_launcher launcher);

// Tells what became of a ticket: a look at memory, and no call of a driver. Safe in a capture, and beside other threads
// that look. A hot call.
//
// Errors: PAGELIFT_BUSY while another thread stages, launches or records; those of handles.
pagelift_status pagelift_launcher_state(pagelift_launcher launcher,
                                        pagelift_ticket ticket,
                                        pagelift_ticket_state *state);

// Tells whether a ticket's state is PAGELIFT_TICKET_STATE_DONE; as `pagelift_launcher_state`.
//
// Errors: as `pagelift_launcher_state`.
pagelift_status pagelift_launcher_is_done(pagelift_launcher launcher,
                                          pagelift_ticket ticket,
                                          bool *is_done);

// Tells what the launch reported of a ticket's plan. Set `report->size` before.
//
// Errors: PAGELIFT_LAUNCH where it is not done; otherwise as `pagelift_launcher_state`.
pagelift_status pagelift_launcher_report(pagelift_launcher launcher,
                                         pagelift_ticket ticket,
                                         pagelift_report *report);

// Tells the digest that a call added to the plan which was staged as `ticket`. Results are kept until the next plan is
// staged.
//
// Errors: PAGELIFT_LAUNCH before the ticket is done, and where there are no such results (any more);
// PAGELIFT_WRONG_PLAN for a launcher that was not bound with a digest plan; those of handles.
pagelift_status pagelift_launcher_digest(pagelift_launcher launcher,
                                         pagelift_ticket ticket,
                                         pagelift_digest_number number,
                                         uint64_t *digest);

// Tells what a launcher has done. Set `counters->size` before.
//
// Errors: PAGELIFT_WRONG_SIZE, and as `pagelift_launcher_state`.
pagelift_status pagelift_launcher_counters(pagelift_launcher launcher,
                                           pagelift_counters *counters);

// Tells what a launcher's tickets are told by: no other launcher of this process has the same.
//
// Errors: those of handles.
pagelift_status pagelift_launcher_id(pagelift_launcher launcher,
                                     uint64_t *id);

// Waits for its stream and frees a launcher. One that was recorded is freed when no graph with it will be replayed any
// more: such a replay would touch memory that is gone. In a capture of its stream it does not wait: the driver frees
// nothing that is in use.
//
// Errors: those of handles.
pagelift_status pagelift_launcher_free(pagelift_launcher launcher);

// Makes a layout of pages of rows.
//
// Errors: PAGELIFT_LAYOUT where rows do not divide the block, a size is 0 or overflows, or segments share bytes or names.
pagelift_status pagelift_paged_layout_new(const pagelift_paged_layout_spec *spec,
                                          pagelift_layout *layout);

// MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, rows of 1152 bytes.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_mla_bf16(uint32_t block_tokens,
                                               pagelift_layout *layout);

// `fp8_ds_mla` (DeepSeek V3.2): 512 e4m3 values, 4 f32 scales and 64 bf16 rope values in one row of 656 bytes.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_fp8_ds_mla(uint32_t block_tokens,
                                                 pagelift_layout *layout);

// The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_indexer_fp8(uint32_t block_tokens,
                                                  pagelift_layout *layout);

// The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_indexer_mxfp4(uint32_t block_tokens,
                                                    pagelift_layout *layout);

// DeepSeek V4 in fp8: a segment of 576-byte rows, then one of 8 bytes; pages are a multiple of `rounding` bytes (576 or
// 512, as the engine has it).
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_deepseek_v4(uint32_t block_tokens,
                                                  uint32_t rounding,
                                                  pagelift_layout *layout);

// DeepSeek V4.1: a segment of 512-byte rows, then one of 16 bytes; pages are a multiple of 512 bytes.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_deepseek_v4_1(uint32_t block_tokens,
                                                    pagelift_layout *layout);

// QSA's main cache in bf16: a segment for each KV head, its rows K of 256 values, then V of 256.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_qsa_main_bf16(uint32_t block_tokens,
                                                    uint32_t kv_heads,
                                                    pagelift_layout *layout);

// QSA's main cache in fp8: the same with one byte a value.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_qsa_main_fp8(uint32_t block_tokens,
                                                   uint32_t kv_heads,
                                                   pagelift_layout *layout);

// QSA's compressed index keys in bf16: 128 values for each group of 4 tokens.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_qsa_compressed_bf16(uint32_t block_tokens,
                                                          pagelift_layout *layout);

// QSA's compressed index keys in fp8: `width` bytes for each group of 4 tokens.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_paged_layout_qsa_compressed_fp8(uint32_t block_tokens,
                                                         uint32_t width,
                                                         pagelift_layout *layout);

// Dense K and V.
//
// Errors: PAGELIFT_LAYOUT, PAGELIFT_BAD_VALUE.
pagelift_status pagelift_paged_layout_dense(uint32_t block_tokens,
                                            const pagelift_dense_shape *shape,
                                            pagelift_layout *layout);

// One page for each request, overwritten in turn: the row of position `p` lies in slot `p % slots`. It is lifted whole,
// and mirrored slot by slot.
//
// Errors: PAGELIFT_LAYOUT where a size is 0 or overflows, or the page is too small.
pagelift_status pagelift_ring_layout_new(const pagelift_ring_layout_spec *spec,
                                         pagelift_layout *layout);

// QSA's ring of raw index keys: the smallest multiple of 4 slots that holds `4 + spec` and divides the block.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_ring_layout_qsa(uint32_t block_tokens,
                                         uint32_t spec,
                                         uint32_t slot_bytes,
                                         pagelift_layout *layout);

// One page for each request, copied whole or not at all.
//
// Errors: PAGELIFT_LAYOUT where a part is empty, or parts share bytes or names; PAGELIFT_BAD_VALUE.
pagelift_status pagelift_state_layout_new(const pagelift_state_layout_spec *spec,
                                          pagelift_layout *layout);

// A gated delta net: convolution window (3 + spec, conv_dim / tp) in bf16, then the temporal state (v_heads / tp,
// v_dim, k_dim) in f32. `page_bytes` is 0 where the page is not padded.
//
// Errors: PAGELIFT_LAYOUT where ranks do not divide evenly, or a size overflows.
pagelift_status pagelift_state_layout_gdn(const pagelift_gdn_shape *shape,
                                          uint64_t page_bytes,
                                          pagelift_layout *layout);

// Mamba2: convolution window (kernel - 1 + spec, (inner + 2 * groups * state) / tp) in bf16, then the SSM state (heads
// / tp, head_dim, state) in f32. `page_bytes` is 0 where the page is not padded.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_state_layout_ssm(const pagelift_ssm_shape *shape,
                                          uint64_t page_bytes,
                                          pagelift_layout *layout);

// A PLE short convolution ((kernel - 1) * ngram + spec, hidden * hc) in bf16, whole on every rank. `page_bytes` is 0
// where the page is not padded.
//
// Errors: PAGELIFT_LAYOUT.
pagelift_status pagelift_state_layout_ple(const pagelift_ple_shape *shape,
                                          uint64_t page_bytes,
                                          pagelift_layout *layout);

// Tells the sizes of a layout. Set `info->size` before.
//
// Errors: PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_layout_info(pagelift_layout layout,
                                     pagelift_layout_facts *info);

// Makes the same page, padded to `page_bytes` bytes (each of its regions, where it has several): a layout of its own.
//
// Errors: PAGELIFT_LAYOUT where that is too small, PAGELIFT_WRONG_PLAN for a layout that is not paged, those of handles.
pagelift_status pagelift_paged_layout_padded_to(pagelift_layout layout,
                                                uint64_t page_bytes,
                                                pagelift_layout *padded);

// Frees a layout.
//
// Errors: those of handles.
pagelift_status pagelift_layout_free(pagelift_layout layout);

// Makes a lifecycle. Free it by `pagelift_lifecycle_free`.
//
// Errors: PAGELIFT_LIFECYCLE for options that cannot be, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE.
pagelift_status pagelift_lifecycle_new(const pagelift_lifecycle_options *options,
                                       pagelift_lifecycle *lifecycle);

// Takes an event. What is to be done then, `pagelift_lifecycle_effects` and `pagelift_lifecycle_orders` tell, until the
// next event.
//
// Errors: PAGELIFT_BAD_TEXT for what is no event; PAGELIFT_LIFECYCLE where it makes no sense now, or there is no room
// for what it asks. Nothing has changed then, but what was counted. Those of handles.
pagelift_status pagelift_lifecycle_apply(pagelift_lifecycle lifecycle,
                                         const char *event);

// Tells the effects of the last event, in that order: a list.
//
// Text is written as a whole: PAGELIFT_CAPACITY where there is no room for it, with `needed` set to the bytes that it
// takes, the 0 at the end among them; then ask again. Other errors: those of handles.
pagelift_status pagelift_lifecycle_effects(pagelift_lifecycle lifecycle,
                                           char *buffer,
                                           size_t room,
                                           size_t *needed);

// Tells what all ranks are told of the last event, in that order: a list, each item for `pagelift_runner_hear`, there
// or through a pipe.
//
// Errors: as `pagelift_lifecycle_effects`.
pagelift_status pagelift_lifecycle_orders(pagelift_lifecycle lifecycle,
                                          char *buffer,
                                          size_t room,
                                          size_t *needed);

// Tells what is known of a request (the JSON that `admitted` brought): "stage", "begun" (steps), "next_token",
// "durable" (tokens whose rows are safe in the host pool), "blocks" by position, and "pages" as [position, page,
// state]; null where it is over.
//
// Errors: PAGELIFT_BAD_TEXT, and as `pagelift_lifecycle_effects`.
pagelift_status pagelift_lifecycle_request(pagelift_lifecycle lifecycle,
                                           const char *request,
                                           char *buffer,
                                           size_t room,
                                           size_t *needed);

// Gives the block that others find by a content hash of 128 bits; PAGELIFT_NONE where there is none.
//
// Errors: those of handles.
pagelift_status pagelift_lifecycle_find(pagelift_lifecycle lifecycle,
                                        uint64_t hash_high,
                                        uint64_t hash_low,
                                        uint32_t *block);

// Counts the requests that use a block.
//
// Errors: those of handles.
pagelift_status pagelift_lifecycle_users(pagelift_lifecycle lifecycle,
                                         uint32_t block,
                                         uint32_t *users);

// Tells what of a lifecycle is free. Set `free->size` before.
//
// Errors: those of handles.
pagelift_status pagelift_lifecycle_rooms(pagelift_lifecycle lifecycle,
                                         pagelift_lifecycle_room *free);

// Tells sums since the lifecycle was made, by name: JSON.
//
// Errors: as `pagelift_lifecycle_effects`.
pagelift_status pagelift_lifecycle_counters(pagelift_lifecycle lifecycle,
                                            char *buffer,
                                            size_t room,
                                            size_t *needed);

// Frees a lifecycle.
//
// Errors: those of handles.
pagelift_status pagelift_lifecycle_free(pagelift_lifecycle lifecycle);

// Makes a registry without memory. Free it by `pagelift_registry_free`.
//
// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED.
pagelift_status pagelift_registry_new(pagelift_registry *registry);

// Takes in `bytes` bytes at `start` that the caller made and will free, where they lie: of the host (`memory` is
// PAGELIFT_MEMORY_HOST; on a GPU they are pinned and mapped here, unless they are already), or of the device (a
// CUdeviceptr as a pointer; on the CPU any memory).
//
// The caller promises that
// 1. `bytes` initialised bytes lie there, which can be read and written, until the region is released or the registry
//    is freed;
// 2. what a launch reads or writes is left alone by everybody else from then on until it is done, as a stream orders it;
// 3. host memory that somebody else registered with CUDA before stays registered as long;
// 4. device memory is of the backend's GPU, in its primary context.
//
// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_BAD_VALUE for no bytes; PAGELIFT_REGISTRY where it shares bytes with a region
// that is here, is registered with CUDA in part, or is said to be the device's and its GPU does not reach it. In a capture: another stream's is not disturbed.
pagelift_status pagelift_registry_adopt(pagelift_registry registry,
                                        pagelift_backend backend,
                                        uint32_t memory,
                                        void *start,
                                        size_t bytes,
                                        pagelift_region_id *region);

// Allocates `bytes` zeroed bytes, page-aligned: pinned and mapped memory of the host, or memory of the device. They are
// freed when the region is released or the registry freed.
//
// Errors: PAGELIFT_OUT_OF_MEMORY. In a capture: another stream's is not disturbed.
pagelift_status pagelift_registry_allocate(pagelift_registry registry,
                                           pagelift_backend backend,
                                           uint32_t memory,
                                           uint64_t bytes,
                                           pagelift_region_id *region);

// Takes in a host pool of many gigabytes that the caller made and will free, `blocks * block_bytes` bytes at `start`,
// registered in chunks by several threads. `regions`, which has room for `regions_room`, gets a region for each chunk,
// `regions_count` how many there are, `blocks_per_extent` the blocks of each but the last, which may have fewer. A
// geometry has an extent for each.
//
// The caller promises that
// 1. the bytes lie there, initialised, to be read and written, until all regions are released or the registry is freed;
// 2. as 2 and 3 of `pagelift_registry_adopt`.
//
// Errors: PAGELIFT_REGISTRY where chunks of that size would cut blocks or pages of memory, or a chunk is registered in part;
// PAGELIFT_CAPACITY where `regions` has no room for all, before anything is registered: `regions_count` is how many there
// would be. PAGELIFT_BACKEND where threads cannot be started. Then nothing stays registered.
pagelift_status pagelift_registry_adopt_pool(pagelift_registry registry,
                                             pagelift_backend backend,
                                             const pagelift_host_pool_spec *spec,
                                             void *start,
                                             pagelift_region_id *regions,
                                             size_t regions_room,
                                             size_t *regions_count,
                                             uint32_t *blocks_per_extent);

// Tells where a region lies.
//
// Errors: PAGELIFT_REGISTRY where it was released, or is another registry's; those of handles.
pagelift_status pagelift_registry_region(pagelift_registry registry,
                                         pagelift_region_id id,
                                         pagelift_region *region);

// Releases a region once no launch uses it any more: this waits. It is freed where it was allocated here, forgotten
// where it was adopted. Launchers that need it refuse work from then on.
//
// Errors: PAGELIFT_REGISTRY where it was released before, or is another registry's; PAGELIFT_IN_USE while a launcher
// that was recorded into a graph is not freed, for graphs are replayed without this library's knowledge;
// PAGELIFT_CAPTURE where a stream with launches is being captured; PAGELIFT_BUSY.
pagelift_status pagelift_registry_release(pagelift_registry registry,
                                          pagelift_region_id region);

// Copies `bytes` bytes from offset `at` of a region on to `into`, in whatever memory the region is, once no launch that
// this registry knows of touches it: this waits. Replays of graphs of the caller's it does not know of. Where a driver fails, a
// part of it may have been copied.
//
// Errors: PAGELIFT_REGISTRY where it was released, or has no such bytes; PAGELIFT_CAPTURE where a stream with launches
// is being captured; PAGELIFT_BUSY.
pagelift_status pagelift_registry_read(pagelift_registry registry,
                                       pagelift_region_id region,
                                       uint64_t at,
                                       uint8_t *into,
                                       size_t bytes);

// Copies `bytes` bytes at `from` to offset `at` of a region on, once no launch that this registry knows of touches it:
// this waits.
//
// Errors: as `pagelift_registry_read`.
pagelift_status pagelift_registry_write(pagelift_registry registry,
                                        pagelift_region_id region,
                                        uint64_t at,
                                        const uint8_t *from,
                                        size_t bytes);

// Counts the regions of a registry.
//
// Errors: those of handles.
pagelift_status pagelift_registry_len(pagelift_registry registry,
                                      size_t *regions);

// Waits for all launches and frees a registry: what it allocated is freed, what it adopted is the caller's again. Where
// launches cannot be waited for, what they may use is never freed.
//
// Errors: PAGELIFT_IN_USE while a launcher that was bound to it is not freed, those of handles.
pagelift_status pagelift_registry_free(pagelift_registry registry);

// Makes a plan of whole blocks in `direction` (a pagelift_direction). `capacity` may be null: 384 jobs, 8192 list
// entries. Plans from the host to the device are restore plans, those from the device to the host write-back plans.
// Free it by `pagelift_plan_free`.
//
// Errors: PAGELIFT_CAPACITY past the most that is allowed, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_BAD_VALUE,
// PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_page_plan_new(pagelift_geometry geometry,
                                       uint32_t direction,
                                       const pagelift_plan_capacity *capacity,
                                       pagelift_plan *plan);

// Makes a plan that lifts imported blocks into pages.
//
// Errors: as `pagelift_page_plan_new`.
pagelift_status pagelift_restore_plan_new(pagelift_geometry geometry,
                                          const pagelift_plan_capacity *capacity,
                                          pagelift_plan *plan);

// Makes a plan that writes pages back to host blocks.
//
// Errors: as `pagelift_page_plan_new`.
pagelift_status pagelift_write_back_plan_new(pagelift_geometry geometry,
                                             const pagelift_plan_capacity *capacity,
                                             pagelift_plan *plan);

// Makes a plan of digests: one number of 64 bits for each list of blocks, the same for the same rows wherever they lie,
// and whatever lies in holes and padding.
//
// Errors: as `pagelift_page_plan_new`.
pagelift_status pagelift_digest_plan_new(pagelift_geometry geometry,
                                         const pagelift_plan_capacity *capacity,
                                         pagelift_plan *plan);

// Empties a plan of pages or of digests, and keeps its memory. Numbers of digests that it gave before are of no use any more.
// A hot call.
//
// Errors: PAGELIFT_WRONG_PLAN for a plan of rows, whose bindings stay from step to step
// (`pagelift_row_plan_clear_bindings`); those of handles.
pagelift_status pagelift_plan_clear(pagelift_plan plan);

// Counts the jobs that are planned.
//
// Errors: those of handles.
pagelift_status pagelift_plan_jobs(pagelift_plan plan,
                                   size_t *jobs);

// Tells the bytes that the launch copies, or that digests read.
//
// Errors: PAGELIFT_WRONG_PLAN for a plan of rows, of which only the device knows; those of handles.
pagelift_status pagelift_plan_bytes(pagelift_plan plan,
                                    uint64_t *bytes);

// Frees a plan.
//
// Errors: those of handles.
pagelift_status pagelift_plan_free(pagelift_plan plan);

// Copies whole blocks along a route, `sources[i]` to `destinations[i]`. Where rows per block differ, both lists are
// read as one row of rows after another: two blocks of 128 fill four pages of 64.
//
// Errors: PAGELIFT_PLAN where the lists do not fit each other, an id is out of range, a row is written twice, or read
// and written, or a block belongs to another group; PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN for a route of another
// direction; those of handles and keys.
pagelift_status pagelift_page_plan_gather(pagelift_plan plan,
                                          pagelift_route_key route,
                                          const uint32_t *sources,
                                          size_t sources_count,
                                          const uint32_t *destinations,
                                          size_t destinations_count);

// Writes zeros to rows `first` to `first + rows - 1` of a block at the end of a route.
//
// Errors: PAGELIFT_PLAN where these are not rows of the block, or are written already; otherwise as
// `pagelift_page_plan_gather`.
pagelift_status pagelift_page_plan_zero(pagelift_plan plan,
                                        pagelift_route_key route,
                                        uint32_t block,
                                        uint32_t first,
                                        uint32_t rows);

// Adds an import: what each of its groups lifts. `mode` is a pagelift_tail_rows. All of its lists are checked.
//
// Errors: PAGELIFT_PLAN where a lifted group is missing or comes twice, a list has another length than the tokens need,
// an id is out of range, rows are written twice, or a block belongs to another group; PAGELIFT_CAPACITY; PAGELIFT_SPAN;
// PAGELIFT_WRONG_PLAN; PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE; those of handles and keys.
pagelift_status pagelift_restore_plan_lift(pagelift_plan plan,
                                           const pagelift_import *import,
                                           uint32_t mode);

// Adds as much of an import as `budget` bytes allow, and takes that from it; `progress` says where the next plan goes
// on. An empty plan takes at least one page, however small the budget. Keep the old progress until the plan is staged.
//
// Errors: as `pagelift_restore_plan_lift`; plan, progress and budget are then as they were.
pagelift_status pagelift_restore_plan_lift_within(pagelift_plan plan,
                                                  const pagelift_import *import,
                                                  uint32_t mode,
                                                  pagelift_lift_progress *progress,
                                                  uint64_t *budget);

// Adds a reserved import, whose lists were checked when it was reserved. A hot call, which takes no lists.
//
// Errors: PAGELIFT_PLAN where it was released or reserved elsewhere, or its rows are written already; PAGELIFT_CAPACITY;
// PAGELIFT_WRONG_PLAN; those of handles.
pagelift_status pagelift_restore_plan_lift_reserved(pagelift_plan plan,
                                                    pagelift_reservations reservations,
                                                    pagelift_import_id import);

// Writes pages of a paged group back to host blocks, whole.
//
// Errors: as `pagelift_page_plan_gather`; PAGELIFT_WRONG_PLAN for another kind of group.
pagelift_status pagelift_write_back_plan_spill(pagelift_plan plan,
                                               pagelift_group_key group,
                                               const uint32_t *pages,
                                               size_t pages_count,
                                               const uint32_t *blocks,
                                               size_t blocks_count);

// Writes one request's state back to a host block: the whole page, all layers.
//
// Errors: as `pagelift_page_plan_gather`; PAGELIFT_WRONG_PLAN for another kind of group.
pagelift_status pagelift_write_back_plan_checkpoint(pagelift_plan plan,
                                                    pagelift_group_key group,
                                                    uint32_t page,
                                                    uint32_t block);

// Adds the first `rows` rows of a list of host blocks.
//
// Errors: PAGELIFT_PLAN where the side lies on the device, the list has fewer rows, or an id is out of range;
// PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN; those of handles and keys.
pagelift_status pagelift_digest_plan_host(pagelift_plan plan,
                                          pagelift_digest_key side,
                                          const uint32_t *blocks,
                                          size_t blocks_count,
                                          uint64_t rows,
                                          pagelift_digest_number *number);

// Adds the first `rows` rows of a list of pages.
//
// Errors: PAGELIFT_PLAN where the side lies on the host; otherwise as `pagelift_digest_plan_host`.
pagelift_status pagelift_digest_plan_device(pagelift_plan plan,
                                            pagelift_digest_key side,
                                            const uint32_t *pages,
                                            size_t pages_count,
                                            uint64_t rows,
                                            pagelift_digest_number *number);

// Makes reservations for a geometry: `imports` imports at one time (at most 2^20), each with room for `capacity`, which
// may be null. Free them by `pagelift_reservations_free`.
//
// Errors: PAGELIFT_CAPACITY, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_reservations_new(pagelift_geometry geometry,
                                          uint32_t imports,
                                          const pagelift_plan_capacity *capacity,
                                          pagelift_reservations *reservations);

// Takes an import's blocks and pages for it, and works out what lifting it in `mode` (a pagelift_tail_rows) takes.
//
// Errors: as `pagelift_restore_plan_lift`; PAGELIFT_PLAN where another import lifts into one of its pages, or holds one
// that it would lift into; PAGELIFT_CAPACITY where all imports are taken. Nothing is held then that was not before.
pagelift_status pagelift_reservations_reserve(pagelift_reservations reservations,
                                              const pagelift_import *import,
                                              uint32_t mode,
                                              pagelift_import_id *id);

// Gives an import's blocks and pages back: no launch or transfer touches them any more.
//
// Errors: PAGELIFT_PLAN where it was released already, or reserved elsewhere; those of handles.
pagelift_status pagelift_reservations_release(pagelift_reservations reservations,
                                              pagelift_import_id import);

// Tells the bytes that lifting an import copies.
//
// Errors: PAGELIFT_PLAN where it is not reserved here, those of handles.
pagelift_status pagelift_reservations_bytes(pagelift_reservations reservations,
                                            pagelift_import_id import,
                                            uint64_t *bytes);

// Tells whether an import is reserved here still.
//
// Errors: those of handles.
pagelift_status pagelift_reservations_contains(pagelift_reservations reservations,
                                               pagelift_import_id import,
                                               bool *contains);

// Counts the imports that are reserved.
//
// Errors: those of handles.
pagelift_status pagelift_reservations_len(pagelift_reservations reservations,
                                          size_t *imports);

// Frees reservations.
//
// Errors: those of handles.
pagelift_status pagelift_reservations_free(pagelift_reservations reservations);

// Makes a plan of rows in `direction` (a pagelift_direction). `capacity` may be null: 16 bindings, 1024 changes. Plans
// from the device to the host are mirror plans. Free it by `pagelift_plan_free`.
//
// Errors: as `pagelift_page_plan_new`.
pagelift_status pagelift_row_plan_new(pagelift_geometry geometry,
                                      uint32_t direction,
                                      const pagelift_row_capacity *capacity,
                                      pagelift_plan *plan);

// Makes a plan that writes newly generated rows back to host blocks: bindings say which rows, the page map where to.
// The launcher that was bound with it last keeps its page map on the device; others refuse the plan.
//
// Errors: as `pagelift_page_plan_new`.
pagelift_status pagelift_mirror_plan_new(pagelift_geometry geometry,
                                         const pagelift_row_capacity *capacity,
                                         pagelift_plan *plan);

// Gathers rows by an index list into a compact buffer: entry `i` of `list->slots` names row `r % rows` of block `r /
// rows` of the source side, which goes to row `i` of the buffer. Negative entries leave their row alone.
//
// Errors: PAGELIFT_PLAN where the key is bound already, another binding writes to the buffer or reads it, or the list
// has room for more entries than the buffer has rows; PAGELIFT_WRONG_PLAN for a route of another direction;
// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles and keys.
pagelift_status pagelift_row_plan_gather_rows(pagelift_plan plan,
                                              pagelift_compact_route_key route,
                                              const pagelift_row_binding *list);

// Forgets all bindings of a plan of rows, and keeps the page map.
//
// Errors: PAGELIFT_WRONG_PLAN, those of handles.
pagelift_status pagelift_row_plan_clear_bindings(pagelift_plan plan);

// Mirrors the rows of a paged or ring group that a step wrote, as `binding` will say on the device.
//
// Errors: PAGELIFT_PLAN where the group has no host side or is bound already, an address is 0 or misaligned;
// PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN for a state; PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles and
// keys.
pagelift_status pagelift_mirror_plan_bind(pagelift_plan plan,
                                          pagelift_group_key group,
                                          const pagelift_row_binding *binding);

// Maps `page` of `group` to host block `block`, in the page map of a mirror plan. Takes effect when the plan is staged.
// A hot call.
//
// Errors: PAGELIFT_PLAN where an id is out of range, the page is mapped, the block mirrors another page, one of them
// belongs to another group, or pages and blocks differ in rows (see `pagelift_page_map_map_rows`); PAGELIFT_CAPACITY;
// PAGELIFT_WRONG_PLAN; those of handles and keys.
pagelift_status pagelift_page_map_map(pagelift_plan plan,
                                      pagelift_group_key group,
                                      uint32_t page,
                                      uint32_t block);

// Maps the rows of a page from `page_row` on to those of a block from `block_row` on, where pages and blocks differ in
// rows: as many as the smaller of the two has.
//
// Errors: as `pagelift_page_map_map`; PAGELIFT_PLAN where a first row is no multiple of that number.
pagelift_status pagelift_page_map_map_rows(pagelift_plan plan,
                                           pagelift_group_key group,
                                           uint32_t page,
                                           uint32_t page_row,
                                           uint32_t block,
                                           uint32_t block_row);

// Unmaps all of `page` of `group`, before the page is given away. What is not mapped stays so. A hot call.
//
// Errors: PAGELIFT_PLAN where the page is out of range; PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN; those of handles and keys.
pagelift_status pagelift_page_map_unmap(pagelift_plan plan,
                                        pagelift_group_key group,
                                        uint32_t page);

// Tells the host block that mirrors the first rows of `page` of `group`: PAGELIFT_NONE where none does.
//
// Errors: PAGELIFT_WRONG_PLAN, those of handles and keys.
pagelift_status pagelift_page_map_block_of(pagelift_plan plan,
                                           pagelift_group_key group,
                                           uint32_t page,
                                           uint32_t *block);

// Counts the changes of the page map that no staged plan has carried yet.
//
// Errors: PAGELIFT_WRONG_PLAN, those of handles.
pagelift_status pagelift_page_map_pending(pagelift_plan plan,
                                          size_t *changes);

// Binds a launcher for each of a rank's plans. `frames` are those of the geometry's groups. It uses a stream of the
// backend's own until `pagelift_runner_set_stream`. Free it by `pagelift_runner_free`.
//
// Errors: PAGELIFT_PLAN where a group that is lifted has no frames or others than it needs, and for options that cannot be a
// lifecycle's, or not one's with this rank; PAGELIFT_CAPACITY past the most room that is allowed; PAGELIFT_NULL_POINTER,
// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of keys, and as `pagelift_launcher_bind`.
pagelift_status pagelift_runner_bind(pagelift_backend backend,
                                     pagelift_registry registry,
                                     pagelift_geometry geometry,
                                     const pagelift_group_frames *frames,
                                     size_t frames_count,
                                     const pagelift_runner_options *options,
                                     pagelift_runner *runner);

// Mirrors the rows of a paged or ring group that steps write, as `binding` will say on the device:
// `pagelift_mirror_plan_bind` of the runner's own plan. Where the rank writes host blocks, each such group that is written back
// has to be bound before a step begins.
//
// Errors: as `pagelift_mirror_plan_bind`.
pagelift_status pagelift_runner_bind_rows(pagelift_runner runner,
                                          pagelift_group_key group,
                                          const pagelift_row_binding *binding);

// Takes an order, one item of what `pagelift_lifecycle_orders` tells. Orders come in the scheduler's order, each exactly
// once; those that came before a step begins are carried out before its forward.
//
// Errors: PAGELIFT_BAD_TEXT for what is no order; PAGELIFT_PLAN where a page cannot be mapped or unmapped, or the order is of
// another lifecycle's request, PAGELIFT_CAPACITY where its plan has no room for that: the rank is lost then. Those of handles.
pagelift_status pagelift_runner_hear(pagelift_runner runner,
                                     const char *order);

// Plans the step and stages it: what is written back, lifts of at most `lift_bytes` bytes (one at least, where any
// waits; UINT64_MAX is all), and mirrors. A step in which nothing is computed is staged too, until the runner is idle.
// Set `staged->size` before.
//
// Errors: PAGELIFT_RING_FULL and PAGELIFT_CAPTURE where some of it can only be staged later: no forward of this step
// may run before a call succeeds. PAGELIFT_PLAN where a step has begun, and rows that it writes are to be mirrored and not
// bound: nothing has changed then; bind them by `pagelift_runner_bind_rows`, and call this again. PAGELIFT_LAUNCH where the rank
// is lost. PAGELIFT_BUSY, those of handles.
pagelift_status pagelift_runner_stage(pagelift_runner runner,
                                      uint64_t lift_bytes,
                                      pagelift_staged *staged);

// Launches what comes before a forward: what is written back, and lifts. Nothing, where nothing was staged since.
//
// Errors: as `pagelift_launcher_launch`. What was to be launched has failed then (but where the call is PAGELIFT_BUSY),
// and the rank answers so; the step may go on. PAGELIFT_LAUNCH where the rank is lost.
pagelift_status pagelift_runner_before_forward(pagelift_runner runner);

// Launches what comes after a forward: its mirror.
//
// Errors: as `pagelift_launcher_launch`; what the step wrote is then written back by a later one. PAGELIFT_LAUNCH where
// the rank is lost.
pagelift_status pagelift_runner_after_forward(pagelift_runner runner);

// Records what comes before a forward into the graph that the stream is being captured into. A step then is
// `pagelift_runner_stage` and `pagelift_runner_replay`. The caller promises what that of `pagelift_launcher_record`
// does.
//
// Errors: as `pagelift_launcher_record`, and PAGELIFT_LAUNCH where the rank is lost.
pagelift_status pagelift_runner_record_before_forward(pagelift_runner runner);

// Records what comes after a forward; as `pagelift_runner_record_before_forward`.
//
// Errors: as `pagelift_runner_record_before_forward`.
pagelift_status pagelift_runner_record_after_forward(pagelift_runner runner);

// Runs the graph into which both were recorded, by calling `replay(user)`, which replays it and answers 0, or something
// else where it could not. Meanwhile calls on the runner and its registry answer PAGELIFT_BUSY.
//
// The caller promises that
// 1. `replay` may be called with `user`, and does not throw or jump out of it.
//
// Errors: PAGELIFT_NULL_POINTER; PAGELIFT_REGISTRY where a pool or an array is not registered any more;
// PAGELIFT_BACKEND where `replay` answers something else than 0; those of handles. What is staged stays so: the engine
// replays again, or gives the rank up. PAGELIFT_LAUNCH where the rank is lost; as `pagelift_launcher_stage` where a launch or a
// staging has failed before: what is left of it is overwritten first.
pagelift_status pagelift_runner_replay(pagelift_runner runner,
                                       pagelift_replay replay,
                                       void *user);

// Says what became of everything that has finished by now: a list of events, each for `pagelift_lifecycle_apply`. It
// does not wait. What there is no room for is said by the next call.
//
// Errors: as `pagelift_lifecycle_effects`.
pagelift_status pagelift_runner_poll(pagelift_runner runner,
                                     char *buffer,
                                     size_t room,
                                     size_t *needed);

// Waits until every launch has finished.
//
// Errors: as `pagelift_launcher_wait`.
pagelift_status pagelift_runner_wait(pagelift_runner runner);

// Tells whether it has nothing to do, and nothing in flight.
//
// Errors: those of handles.
pagelift_status pagelift_runner_is_idle(pagelift_runner runner,
                                        bool *is_idle);

// Tells whether it does nothing more, because its GPU has failed, or it could not do as it was told.
//
// Errors: those of handles.
pagelift_status pagelift_runner_is_lost(pagelift_runner runner,
                                        bool *is_lost);

// Uses another stream from now on, the one that its forwards run on. The caller promises what that of
// `pagelift_launcher_set_stream` does.
//
// Errors: as `pagelift_launcher_set_stream`.
pagelift_status pagelift_runner_set_stream(pagelift_runner runner,
                                           void *stream);

// Uses a stream of the backend's own again. On the CPU, nothing is to be done.
//
// Errors: as `pagelift_launcher_set_stream`.
pagelift_status pagelift_runner_set_own_stream(pagelift_runner runner);

// Tells what was staged and launched for a kind of work (a pagelift_lane). Set `counters->size` before.
//
// Errors: PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles.
pagelift_status pagelift_runner_counters(pagelift_runner runner,
                                         uint32_t lane,
                                         pagelift_counters *counters);

// Waits for its stream and frees a runner; as `pagelift_launcher_free`.
//
// Errors: those of handles.
pagelift_status pagelift_runner_free(pagelift_runner runner);

// The span of a prompt of `prompt_tokens` tokens; `recurrence` is a pagelift_recurrence.
//
// Errors: PAGELIFT_SPAN for a prompt of no tokens, PAGELIFT_BAD_VALUE.
pagelift_status pagelift_prompt_span_new(uint64_t prompt_tokens,
                                         uint32_t recurrence,
                                         pagelift_prompt_span *span);

// A span as the engine decided it, checked.
//
// Errors: PAGELIFT_SPAN where more is imported than the prompt has, or decoding does not resume at the token after the
// imported ones or at the last of them, inside the prompt.
pagelift_status pagelift_prompt_span_explicit(uint64_t prompt_tokens,
                                              uint64_t imported_tokens,
                                              uint64_t resume_at,
                                              pagelift_prompt_span *span);

// A span in blocks of `block_tokens` slots.
//
// Errors: PAGELIFT_SPAN.
pagelift_status pagelift_prompt_span_in_blocks_of(const pagelift_prompt_span *span,
                                                  uint64_t block_tokens,
                                                  pagelift_block_span *blocks);

// Decides what becomes of a prompt's partly filled last block, in blocks of `block_tokens` tokens, with `free_pages`
// pages free. `policy` is a pagelift_policy, `recurrence` a pagelift_recurrence. Set `decision->size` before.
//
// Errors: PAGELIFT_SPAN where the prompt is empty, a block has no slots, or ids would need more than 32 bits;
// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE.
pagelift_status pagelift_decide(uint32_t policy,
                                uint64_t prompt_tokens,
                                uint32_t recurrence,
                                uint64_t block_tokens,
                                uint32_t free_pages,
                                pagelift_decision *decision);

// Tells what the last failed call of this thread said, in `buffer`: at most `room` bytes, the 0 at the end among them,
// so cut where that is too short. `needed` is set to the bytes that it takes, the 0 among them; it may be null.
// `buffer` may be null where `room` is 0. A call that succeeds leaves the message; before the first failure it is
// empty.
//
// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED; the message stays as it was. May be called at any time, also in a
// capture.
pagelift_status pagelift_last_error(char *buffer,
                                    size_t room,
                                    size_t *needed);

// Tells the kind of the last failure of this thread in one word, such as "Unregistered": the variant of the Rust error,
// which Python has as `kind`. Otherwise as `pagelift_last_error`.
pagelift_status pagelift_last_error_kind(char *buffer,
                                         size_t room,
                                         size_t *needed);

// The name of a status, such as "PAGELIFT_BUSY": text that lives as long as the library. Of a number that is none, "?".
const char *pagelift_status_name(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGELIFT_H */
