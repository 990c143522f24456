//! The contract of a codec: values to bytes, and bytes to values.

use std::{borrow::Cow, fmt};

use crate::{Corrupt, Unencodable};

/// A form of bytes for values, and the form for the keys of maps that goes with it.
///
/// A codec is cheap to clone. Which types it can write and read, its [`Encode`] and [`Decode`] implementations say, so an
/// unsupported type does not compile.
///
/// ```
/// use bandog_codec::{Codec, Encode, TextJson};
///
/// let (mut key, mut value) = (Vec::new(), Vec::new());
/// TextJson.keys().encode("ann", &mut key)?;
/// TextJson.encode("ann", &mut value)?;
/// assert_eq!((key, value), (b"ann".to_vec(), b"\"ann\"".to_vec()));
/// # Ok::<(), bandog_codec::Unencodable>(())
/// ```
pub trait Codec: Clone + fmt::Debug + Send + Sync + 'static {
    /// The codec of the keys of a map whose values this codec writes.
    type Keys: Codec;

    /// The codec of the keys of a map whose values this codec writes.
    fn keys(&self) -> Self::Keys;

    /// The name in errors, such as `TypedJson`.
    fn name(&self) -> Cow<'static, str>;
}

/// A codec that can write values of this type.
pub trait Encode<T: ?Sized>: Codec {
    /// Appends the bytes of the value to `to`.
    ///
    /// # Errors
    /// [`Unencodable`] if this value has no form in the codec. Then `to` is unchanged.
    fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable>;
}

/// A codec that can read values of this type.
pub trait Decode<T>: Codec {
    /// The value of these bytes, all of which must belong to it.
    ///
    /// The bytes may come from anywhere: no bytes make a codec panic, or allocate much more than their own length.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes are not those of a value of this type.
    fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt>;
}
