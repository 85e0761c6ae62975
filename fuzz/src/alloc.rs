//! The allocator of every target: the system's, with a limit on a single allocation. No input is
//! larger than a few kilobytes, so code that allocates much more trusted a length in it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Above every buffer of fixed size in the shipped code.
static LIMIT: AtomicUsize = AtomicUsize::new(8 << 20);

/// For a target whose services answer with more than that.
pub(crate) fn allow(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn check(size: usize) {
    if size > LIMIT.load(Ordering::Relaxed) {
        let _ = writeln!(std::io::stderr(), "an allocation of {size} bytes");
        // Unwinding out of an allocator is not allowed; libFuzzer keeps the input of an abort as
        // well.
        std::process::abort();
    }
}

// SAFETY: every call is the system allocator's own, with the arguments unchanged.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        unsafe { System.realloc(ptr, layout, size) }
    }
}
