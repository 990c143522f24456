//! Declares the methods of a blocking type that make an async call, and block the thread until it has ended.

/// Methods with the names of the async methods. Each returns an error in async code, and else waits for the async method.
macro_rules! blocking_calls {
    ($Type:ident.$inner:ident: $( $(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $value:ty; )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            #[doc = concat!(
                "As [`", stringify!($name), "`](crate::", stringify!($Type), "::", stringify!($name), "), and ",
                "`ErrorKind::Misused` in async code.",
            )]
            pub fn $name(&self, $($arg: $kind),*) -> bandog_core::Result<$value> {
                $crate::blocking::thread::may_block(stringify!($name))?;
                $crate::blocking::wait::wait(self.$inner.$name($($arg),*))
            }
        )*
    };
}

pub(super) use blocking_calls;
