//! The parts that an operating system and a C library would otherwise bring. These are an entry
//! point, an exit, memory, and the five functions that compiled Rust code expects to find.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

// The stack pointer is only sure to be aligned before the first call.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

extern "C" fn start() -> ! {
    exit(crate::main())
}

fn exit(code: i32) -> ! {
    // SAFETY: `exit_group` takes one integer and does not return.
    unsafe {
        asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn, nostack));
    }
}

/// The code of a program that panicked; above the number of any step.
const PANICKED: i32 = 101;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(PANICKED)
}

/// Hands out an arena from its beginning to its end and takes nothing back.
struct Bump {
    arena: UnsafeCell<[u8; ARENA]>,
    used: AtomicUsize,
}

const ARENA: usize = 1 << 20;

// SAFETY: `used` gives every byte of the arena to one owner only.
unsafe impl Sync for Bump {}

#[global_allocator]
static HEAP: Bump = Bump { arena: UnsafeCell::new([0; ARENA]), used: AtomicUsize::new(0) };

// SAFETY: what it gives out is aligned, within the arena, and given out once.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.arena.get() as usize;
        let start = |used: usize| (base + used).next_multiple_of(layout.align()) - base;
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            start(used).checked_add(layout.size()).filter(|&end| end <= ARENA)
        });
        match taken {
            // SAFETY: `start(used)` plus the size of the layout is within the arena.
            Ok(used) => unsafe { self.arena.get().cast::<u8>().add(start(used)) },
            Err(_) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

// In assembly, for the compiler turns a loop that copies into a call of `memcpy`.

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller owns `len` bytes at both places.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: `to` does not begin inside the source, so it may be copied forwards.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the caller owns `len` bytes at both places, and `len` is not 0.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") len => _,
            inout("rdi") to.add(len - 1) => _, inout("rsi") from.add(len - 1) => _,
            options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller owns `len` bytes there.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    let (above, below): (u8, u8);
    // SAFETY: the caller owns `len` bytes at both places. Comparing `rcx` with itself makes two
    // empty places equal.
    unsafe {
        asm!("cmp rcx, rcx", "repe cmpsb", "seta {above}", "setb {below}",
            above = out(reg_byte) above, below = out(reg_byte) below,
            inout("rcx") len => _, inout("rsi") a => _, inout("rdi") b => _, options(nostack));
    }
    i32::from(above) - i32::from(below)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: as `memcmp`.
    unsafe { memcmp(a, b, len) }
}

// The compiled `alloc` names these, for programs that unwind; this one aborts.

#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(PANICKED)
}
