//! `attack`: attacks any server of JSON-RPC. See `attack --help`.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    rescind_hostile_suite::command::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("attack looks into /proc, which is Linux's");
}
