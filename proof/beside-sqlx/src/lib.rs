//! Empty: the tests are the content of this package.
