//! Single values.

use std::{borrow::Borrow, time::Duration};

use bandog_codec::{Decode, Encode};
use bandog_core::{
    Result,
    structures::{Reply, SetTtl, ValueOp},
};

use crate::{
    Call,
    call::Writer,
    object::{checked_ttl, decode_option, handle},
};

handle! {
    /// One value, as Redisson's `RBucket`. Created by [`Grid::value`](crate::Grid::value).
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Value};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let motd: Value<String> = grid.value("motd")?;
    /// motd.set_for("closed", Duration::from_secs(3600)).await?;
    /// assert!(motd.swap(Some("closed"), Some("open")).await?);
    /// assert_eq!(motd.take().await?.as_deref(), Some("open"));
    /// # Ok(()) }
    /// ```
    Value<T>
}

impl<T, C: Encode<T>> Value<T, C> {
    fn set_with<Q: ?Sized>(&self, value: &Q, ttl: SetTtl) -> Call<()>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |to| {
                let ttl = match ttl {
                    SetTtl::For(ttl) => SetTtl::For(checked_ttl(ttl)?),
                    other => other,
                };
                Ok(ValueOp::Set(to.write(&self.codec, value)?, ttl))
            },
            Reply::done,
        )
    }

    /// Writes the value. A ttl is removed.
    pub fn set<Q: ?Sized>(&self, value: &Q) -> Call<()>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.set_with(value, SetTtl::Clear)
    }

    /// Writes the value. A ttl stays.
    pub fn set_keep<Q: ?Sized>(&self, value: &Q) -> Call<()>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.set_with(value, SetTtl::Keep)
    }

    /// Writes the value, which is deleted after this time. The time is rounded up to milliseconds.
    pub fn set_for<Q: ?Sized>(&self, value: &Q, ttl: Duration) -> Call<()>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.set_with(value, SetTtl::For(ttl))
    }

    /// Writes the value if there is none. Returns whether it was written.
    pub fn set_new<Q: ?Sized>(&self, value: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(ValueOp::SetNew(to.write(&self.codec, value)?, None)), Reply::flag)
    }

    /// Writes the value if there is none, and deletes it after this time. Returns whether it was written.
    pub fn set_new_for<Q: ?Sized>(&self, value: &Q, ttl: Duration) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(ValueOp::SetNew(to.write(&self.codec, value)?, Some(checked_ttl(ttl)?))), Reply::flag)
    }

    /// Writes `to` if the value is `from`; `None` is a value that does not exist. Returns whether it was written. The store
    /// compares the encoded bytes. A ttl is removed.
    pub fn swap<Q: ?Sized>(&self, from: Option<&Q>, to: Option<&Q>) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let write =
            |writer: &mut Writer, value: Option<&Q>| value.map(|value| writer.write(&self.codec, value)).transpose();
        self.object
            .write(|writer| Ok(ValueOp::Swap { from: write(writer, from)?, to: write(writer, to)? }), Reply::flag)
    }
}

impl<T, C: Decode<T>> Value<T, C> {
    fn read(&self, op: ValueOp) -> Call<Option<T>> {
        let codec = self.codec.clone();
        self.object.call(op, move |reply: Reply| -> Result<Option<T>> { decode_option(&codec, reply.bytes()?) })
    }

    /// The value, if it exists.
    pub fn get(&self) -> Call<Option<T>> {
        self.read(ValueOp::Get)
    }

    /// Deletes the value, and returns it. If its bytes cannot be read, it is deleted nevertheless.
    pub fn take(&self) -> Call<Option<T>> {
        self.read(ValueOp::Take)
    }
}
