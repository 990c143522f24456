//! The language of the page's texts.

use std::{fmt, str::FromStr};

use hyper::{HeaderMap, header};

/// A language of the texts of the page.
///
/// ```
/// use bandog_page::Language;
///
/// assert_eq!("zh".parse(), Ok(Language::Chinese));
/// assert!("fr".parse::<Language>().is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// English, `en`.
    #[default]
    English,
    /// Simplified Chinese, `zh`.
    Chinese,
}

/// The error of a text that names no language of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLanguage;

impl Language {
    /// The language as in the attribute `lang` of HTML.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// The first language of the header `Accept-Language` that the page has, by the order of the client's preferences.
    pub(crate) fn accepted(headers: &HeaderMap) -> Option<Self> {
        let header = headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?;
        let mut best: Option<(f32, Self)> = None;
        for part in header.split(',') {
            let (range, quality) = part.split_once(';').unwrap_or((part, ""));
            let quality = quality.trim().strip_prefix("q=").map_or(1.0, |text| text.parse().unwrap_or(0.0));
            let language = range.trim().split('-').next().and_then(|name| name.to_lowercase().parse().ok());
            let Some(language) = language.filter(|_| quality > best.map_or(0.0, |(quality, _)| quality)) else {
                continue;
            };
            best = Some((quality, language));
        }
        best.map(|(_, language)| language)
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// Parses `en` or `zh`.
    fn from_str(text: &str) -> Result<Self, UnknownLanguage> {
        match text {
            "en" => Ok(Self::English),
            "zh" => Ok(Self::Chinese),
            _ => Err(UnknownLanguage),
        }
    }
}

impl fmt::Display for UnknownLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the page has the languages en and zh")
    }
}

impl std::error::Error for UnknownLanguage {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]
mod tests {
    use super::*;

    #[test]
    fn the_language_with_the_greatest_quality_is_accepted() {
        let accepted = |text: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, text.parse().unwrap())]);
            Language::accepted(&headers)
        };
        assert_eq!(accepted("zh-CN,zh;q=0.9,en;q=0.8"), Some(Language::Chinese));
        assert_eq!(accepted("fr, en;q=0.5, ZH-TW;q=0.7"), Some(Language::Chinese));
        assert_eq!(accepted("en-GB, zh"), Some(Language::English));
        for nothing in ["fr", "", "*", "zh;q=0", "zh;q=x"] {
            assert_eq!(accepted(nothing), None, "{nothing}");
        }
        assert_eq!(Language::accepted(&HeaderMap::new()), None);
    }
}
