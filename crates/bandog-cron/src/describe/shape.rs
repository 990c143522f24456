//! The shape of a field's values: one value, a range, equal steps or a list.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All values of the field.
    All,
    /// No value.
    None,
    /// One value.
    One(u32),
    /// Three or more consecutive values, from the first number to the second number.
    Range(u32, u32),
    /// Equal steps from a value to the end of the field. The step divides the field's size, so the steps stay equal
    /// when the field starts again, for example when the minutes start again in the next hour.
    Steps {
        /// The first value.
        from: u32,
        /// The step.
        by: u32,
    },
    /// Any other set of values.
    List(Vec<u32>),
}

impl Shape {
    /// The shape of these values, which are sorted. The field accepts the values from `min` to `max`.
    pub(super) fn of(values: Vec<u32>, min: u32, max: u32) -> Self {
        let span = max - min + 1;
        match *values.as_slice() {
            [] => Self::None,
            [one] => Self::One(one),
            [first, second, ..] => {
                let by = second - first;
                let last = values[values.len() - 1];
                let has_equal_steps = values.windows(2).all(|pair| pair[1] - pair[0] == by);
                match values.len() {
                    count if span == u32::try_from(count).unwrap_or(u32::MAX) => Self::All,
                    3.. if has_equal_steps && by == 1 => Self::Range(first, last),
                    _ if has_equal_steps && by > 1 && last + by > max && span.is_multiple_of(by) => {
                        Self::Steps { from: first, by }
                    }
                    _ => Self::List(values),
                }
            }
        }
    }

    /// The values one by one. `max` is the field's largest value. For `All`, the result is empty, because a phrase
    /// never lists all values of a field.
    pub(super) fn values(&self, max: u32) -> Vec<u32> {
        match self {
            Self::All | Self::None => Vec::new(),
            Self::One(one) => vec![*one],
            Self::Range(first, last) => (*first..=*last).collect(),
            Self::Steps { from, by } => (*from..=max).step_by(*by as usize).collect(),
            Self::List(values) => values.clone(),
        }
    }
}
