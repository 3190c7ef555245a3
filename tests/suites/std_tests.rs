//! Tests of Rust's standard library, from its sources (`STD_SOURCE`, below which `fs/tests.rs` is), as a crate of
//! their own beside the library that is installed: std itself is not built. For std 1.96; the tests of another
//! version may want other features. By `RUSTC_BOOTSTRAP=1 rustc --test --edition 2024`.
//!
//! The tests name std's modules `crate::...`, so each is here, with the tests in place. What they need of the crate
//! rand is here as well.
#![feature(borrowed_buf_init, core_io_borrowed_buf, dirfd, fs_set_times, io_error_uncategorized, read_buf, read_buf_at)]
#![feature(rustc_private, test, unix_file_vectored_at, unix_mkfifo, unix_socket_ancillary_data, unix_socket_peek)]
#![allow(dead_code, unused_imports, unused_macros)]

extern crate libc;
extern crate self as rand;
extern crate self as rand_xorshift;
extern crate test;

pub use std::{
    any, assert_matches, cmp, collections, env, error, ffi, fmt, hash, iter, mem, ops, panic, path, ptr, result, str,
    sync, thread, time,
};

macro_rules! tests {
    ($($module:ident)::*, $file:literal) => {
        pub use std::$($module)::*::*;
        #[cfg(test)]
        mod tests {
            include!(concat!(env!("STD_SOURCE"), "/", $file));
        }
    };
}

pub mod fs {
    tests!(fs, "fs/tests.rs");
}
pub mod io {
    pub use std::io::*;
    pub mod piped {
        tests!(io, "io/pipe/tests.rs");
    }
}
pub mod os {
    pub use std::os::{fd, linux};
    pub mod unix {
        pub use std::os::unix::{ffi, io, process};
        pub mod fs {
            tests!(os::unix::fs, "os/unix/fs/tests.rs");
            use std::{fs, fs::Permissions, io, io::Read, io::Write};
        }
        pub mod net {
            tests!(os::unix::net, "os/unix/net/tests.rs");
        }
    }
}
pub mod process {
    tests!(process, "process/tests.rs");
}
mod test_helpers {
    include!(concat!(env!("STD_SOURCE"), "/test_helpers.rs"));
}

pub trait SeedableRng {
    fn from_seed(seed: [u8; 16]) -> Self;
}
pub trait RngCore {
    fn next_u32(&mut self) -> u32;
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next_u32() as u8);
    }
}
pub struct XorShiftRng(u128);
impl SeedableRng for XorShiftRng {
    fn from_seed(seed: [u8; 16]) -> Self {
        XorShiftRng(u128::from_le_bytes(seed) | 1)
    }
}
impl RngCore for XorShiftRng {
    fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 << 23;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 26;
        (self.0 >> 64) as u32
    }
}
