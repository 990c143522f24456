//! Unit tests that need a server.
