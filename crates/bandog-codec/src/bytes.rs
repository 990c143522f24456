//! Bytes as Java's `ByteArrayCodec`.

use std::{any::type_name, borrow::Cow};

use crate::{Codec, Corrupt, Decode, Encode, Unencodable};

/// Bytes as they are, as Java's `ByteArrayCodec`.
///
/// It writes all types that are `AsRef<[u8]>`, and reads `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>` and `[u8; N]`.
///
/// # Errors
/// [`Corrupt`] if an array has another length.
///
/// ```
/// use bandog_codec::{Bytes, Decode, Encode};
///
/// let mut bytes = Vec::new();
/// Bytes.encode(&[1, 2, 255], &mut bytes)?;
/// assert_eq!(Decode::<Vec<u8>>::decode(&Bytes, &bytes)?, [1, 2, 255]);
/// assert!(Decode::<[u8; 4]>::decode(&Bytes, &bytes).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes;

const NAME: &str = "Bytes";

impl Codec for Bytes {
    type Keys = Self;

    fn keys(&self) -> Self {
        *self
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
}

impl<T: AsRef<[u8]> + ?Sized> Encode<T> for Bytes {
    fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        to.extend_from_slice(value.as_ref());
        Ok(())
    }
}

impl<T: for<'a> TryFrom<&'a [u8]>> Decode<T> for Bytes {
    fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt> {
        T::try_from(bytes).map_err(|_| {
            Corrupt::new(NAME, format!("the bytes of a {}", type_name::<T>())).found(format!("{} bytes", bytes.len()))
        })
    }
}
