//! The `bandog` command with memory and SQLite only, for the first minutes with a clone: `cargo run -- demo`.

fn main() -> std::process::ExitCode {
    bandog_cli::run()
}
