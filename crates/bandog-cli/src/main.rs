//! The `bandog` command with the stores that its features name; all by default.

fn main() -> std::process::ExitCode {
    bandog_cli::run()
}
