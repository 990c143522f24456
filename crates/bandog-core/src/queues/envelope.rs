//! The content of an element as a store keeps it: the bytes of its pusher, or an envelope of optional fields around them.
//!
//! An envelope begins with the byte 255 and the text `bandog`, and the number of its form, 2. A field is its tag (a byte), its
//! length (two bytes, the greater first) and its bytes. The tag 0, without a length, ends the fields; the payload follows.
//! Who does not know a tag below 128 ignores the field. Who does not know one from 128 on must not work on the element.
//! Bytes of a pusher that begin like an envelope are kept in one.
//!
//! | tag | field |
//! |---|---|
//! | 1 | a header: the length of its name in a byte, its name, and its value; the tag may occur more than once |

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{Error, ErrorKind, Result, structures::Bytes};

/// Maximum number of bytes of the headers of an element: of each its name, its value and 4 more.
pub const MAX_HEADERS: usize = 4096;
/// Maximum number of bytes of an envelope, without the payload.
pub const MAX_ENVELOPE: usize = 8192;
/// How an envelope begins.
const MARK: &[u8; 7] = b"\xffbandog";
/// The number of the form.
const FORM: u8 = 2;
/// The tags that this program knows.
const END: u8 = 0;
const HEADER: u8 = 1;
/// The first tag of fields that must be known.
const NEEDED: u8 = 128;
/// Bytes of a header beside its name and its value.
const OVERHEAD: usize = 4;

/// Names and values that travel with an element, such as the context of a trace. Sorted by name.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(Arc<BTreeMap<String, String>>);

impl Headers {
    /// Sets a header. Both are texts; the name has from 1 to 255 bytes.
    ///
    /// # Errors
    /// `Misused`: the name is empty or too long, or the headers have more than [`MAX_HEADERS`] bytes. Then nothing is changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if name.is_empty() || name.len() > usize::from(u8::MAX) {
            let message = format!("the name of a header has {} bytes; it must have from 1 to 255", name.len());
            return Err(Error::misused(message));
        }
        let others = self.iter().filter(|(other, _)| *other != name);
        let bytes = others.map(|(name, value)| size(name, value)).sum::<usize>() + size(name, value);
        if bytes > MAX_HEADERS {
            return Err(Error::misused(format!(
                "with {name:?}, the headers of the element have {bytes} bytes; the most are {MAX_HEADERS}"
            )));
        }
        Arc::make_mut(&mut self.0).insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The values are not shown: they may be secret.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn size(name: &str, value: &str) -> usize {
    name.len() + value.len() + OVERHEAD
}

/// Whether the content of an element is an envelope. A store whose layout is older than that must not keep it.
pub fn is_envelope(content: &[u8]) -> bool {
    content.starts_with(MARK)
}

/// The content of an element.
pub fn close(headers: &Headers, payload: Bytes) -> Bytes {
    if headers.is_empty() && !is_envelope(&payload) {
        return payload;
    }
    let mut content = Vec::with_capacity(MARK.len() + 2 + MAX_HEADERS.min(payload.len()) + payload.len());
    content.extend(MARK);
    content.push(FORM);
    for (name, value) in headers.iter() {
        // Neither is longer than these numbers: see `set`.
        let [length, name_length] = [1 + name.len() + value.len(), name.len()];
        content.push(HEADER);
        content.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        content.push(u8::try_from(name_length).unwrap_or(u8::MAX));
        content.extend(name.bytes());
        content.extend(value.bytes());
    }
    content.push(END);
    content.extend(payload);
    content
}

/// The headers and the payload of an element. `content` may be its beginning.
///
/// # Errors
/// - [`ErrorKind::Unsupported`]: a newer program has pushed the element. Another program may be able to work on it.
/// - [`ErrorKind::Corrupt`]: the content is damaged, or the envelope is cut.
pub fn open(content: &[u8]) -> Result<(Headers, &[u8])> {
    let Some(rest) = content.strip_prefix(MARK) else { return Ok((Headers::default(), content)) };
    let mut fields = Fields(rest);
    let form = fields.number()?;
    if form != FORM {
        return Err(newer(format_args!("an envelope of the form {form}, and this one knows the form {FORM}")));
    }
    let mut headers = Headers::default();
    loop {
        match fields.number()? {
            END => return Ok((headers, fields.0)),
            tag => {
                let [high, low] = [fields.number()?, fields.number()?];
                let field = fields.bytes(usize::from(u16::from_be_bytes([high, low])))?;
                match tag {
                    HEADER => {
                        let mut parts = Fields(field);
                        let length = parts.number()?;
                        let name = String::from_utf8_lossy(parts.bytes(usize::from(length))?);
                        headers.set(&name, &String::from_utf8_lossy(parts.0)).map_err(|_| damaged())?;
                    }
                    NEEDED.. => return Err(newer(format_args!("the field {tag}, which this one does not know"))),
                    _ => {}
                }
            }
        }
    }
}

/// As [`open`], with the payload in the place of the content.
///
/// # Errors
/// As of [`open`].
pub fn opened(mut content: Bytes) -> Result<(Headers, Bytes)> {
    let (headers, payload) = open(&content)?;
    content.drain(..content.len() - payload.len());
    Ok((headers, content))
}

fn newer(what: fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a newer program has pushed this element: it has {what}"))
}

fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "the envelope of the element is damaged")
}

/// Reads from the beginning of bytes.
struct Fields<'c>(&'c [u8]);

impl<'c> Fields<'c> {
    fn number(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn bytes(&mut self, length: usize) -> Result<&'c [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        pairs.iter().for_each(|(name, value)| headers.set(name, value).unwrap());
        headers
    }

    #[test]
    fn content_without_headers_is_the_payload() {
        assert_eq!(close(&Headers::default(), b"abc".to_vec()), b"abc");
        assert_eq!(open(b"abc").unwrap(), (Headers::default(), &b"abc"[..]));
        assert_eq!(open(b"").unwrap(), (Headers::default(), &b""[..]));
    }

    #[test]
    fn headers_come_back() {
        for payload in [&b""[..], b"abc", b"\0\0", &[0xff; 100]] {
            let given = headers(&[("traceparent", "00-1-2-01"), ("a", ""), ("ä", "ö")]);
            let content = close(&given, payload.to_vec());
            assert!(is_envelope(&content));
            assert_eq!(open(&content).unwrap(), (given, payload));
        }
    }

    #[test]
    fn the_form_is_this() {
        let content = close(&headers(&[("k", "v")]), b"p".to_vec());
        assert_eq!(content, b"\xffbandog\x02\x01\x00\x03\x01kv\x00p");
    }

    #[test]
    fn a_payload_that_looks_like_an_envelope_is_kept_in_one() {
        let payload = close(&headers(&[("k", "v")]), b"inner".to_vec());
        let content = close(&Headers::default(), payload.clone());
        assert_eq!(open(&content).unwrap(), (Headers::default(), &payload[..]));
    }

    #[test]
    fn unknown_fields_are_ignored_or_refused() {
        let ignored = b"\xffbandog\x02\x7f\x00\x02xy\x00p";
        assert_eq!(open(ignored).unwrap(), (Headers::default(), &b"p"[..]));
        for newer in [&b"\xffbandog\x02\x80\x00\x00\x00p"[..], b"\xffbandog\x03"] {
            assert_eq!(open(newer).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn no_beginning_of_an_envelope_is_read_as_a_whole_one() {
        let content = close(&headers(&[("k", "v"), ("l", "w")]), b"p".to_vec());
        for end in MARK.len()..content.len() - 1 {
            assert_eq!(open(&content[..end]).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
        }
    }

    #[test]
    fn the_limits_hold() {
        let mut given = headers(&[("a", &"v".repeat(4000))]);
        for (name, value) in [("", "v"), (&*"n".repeat(256), ""), ("b", &"v".repeat(100))] {
            assert_eq!(given.set(name, value).unwrap_err().kind(), ErrorKind::Misused);
        }
        given.set("a", &"w".repeat(MAX_HEADERS - 5)).unwrap();
        let many = (0..512).map(|number| (format!("{number:03}"), "v")).collect::<Vec<_>>();
        let many = many.iter().map(|(name, value)| (&**name, *value)).collect::<Vec<_>>();
        for full in [given, headers(&many)] {
            let content = close(&full, Vec::new());
            assert!(content.len() <= MAX_ENVELOPE);
            assert_eq!(open(&content).unwrap().0, full);
        }
    }

    #[test]
    fn values_are_not_shown() {
        assert_eq!(format!("{:?}", headers(&[("token", "secret")])), r#"{"token"}"#);
    }
}
