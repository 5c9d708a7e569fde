//! The program begins with `kern::entry`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,-e,shoal_entry");
}
