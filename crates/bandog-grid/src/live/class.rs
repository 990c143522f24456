//! The layout of a class of live objects: the names of its fields and keys.

/// A class of live objects.
#[derive(Debug, Clone, Copy)]
pub struct LiveClass {
    /// The name: that of the Java class, if Java uses the objects, too.
    pub name: &'static str,
    /// Whether all keys of the class are in one slot of a cluster.
    pub one_slot: bool,
    /// The fields without the id.
    pub fields: &'static [LiveField],
}

/// A field of a class of live objects.
#[derive(Debug, Clone, Copy)]
pub struct LiveField {
    /// The name.
    pub name: &'static str,
    /// The index of the field.
    pub index: Option<FieldIndex>,
}

/// The kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldIndex {
    /// Of numbers, which can be compared.
    Numbers,
    /// Of other values.
    Values,
}

impl LiveClass {
    /// The name of the object with this encoded id.
    pub(crate) fn object(&self, id: &[u8]) -> String {
        let hex = id.iter().fold(String::with_capacity(id.len() * 2), |hex, byte| format!("{hex}{byte:02x}"));
        self.object_of(&hex)
    }

    /// The names of all objects: there is a `*` in the place of the id.
    pub(crate) fn objects(&self) -> String {
        self.object_of("*")
    }

    /// The encoded id of the object with this name. `None` for another name.
    pub(crate) fn id_of(&self, name: &str) -> Option<Vec<u8>> {
        let all = self.objects();
        let (before, behind) = all.split_once('*')?;
        // The name has the prefix of the client.
        let hex = name.split_once(before)?.1.strip_suffix(behind)?;
        let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// The name of an index.
    pub(crate) fn index(&self, field: &str) -> String {
        match self.one_slot {
            false => format!("redisson_live_object_index:{{{}}}:{field}", self.name),
            true => format!("bandog:live-index:{{{}}}:{field}", self.name),
        }
    }

    fn object_of(&self, hex: &str) -> String {
        match self.one_slot {
            false => format!("redisson_live_object:{{{hex}}}:{}", self.name),
            true => format!("bandog:live:{{{}}}:{hex}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_id() {
        for one_slot in [false, true] {
            let class = LiveClass { name: "com.shop.User", one_slot, fields: &[] };
            for id in [&b""[..], b"7", b"\x00\xff{}"] {
                assert_eq!(class.id_of(&class.object(id)).as_deref(), Some(id));
                assert_eq!(class.id_of(&format!("prefix:{}", class.object(id))).as_deref(), Some(id));
            }
            assert_eq!(class.id_of("redisson_live_object:{zz}:com.shop.User"), None);
            assert_eq!(class.id_of(&class.index("age")), None);
        }
    }
}
