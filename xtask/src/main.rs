//! `cargo xtask`: see `cargo xtask --help`.

/// Training allocates and frees tensors of a few hundred kilobytes without end; the system's allocator gives
/// each back to the kernel and pays for every page again (measured: 40 % more updates a second without).
#[cfg(feature = "train")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "api")]
    if let Some(code) = xtask::api::stand_in_for_rustdoc() {
        return code;
    }
    xtask::cli::main()
}
