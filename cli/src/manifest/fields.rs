//! Fields of objects: where they stand, what they must be, and what is said when they are not.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::error::{At, Located, Problem};
use super::json::Json;
use super::limits;
use crate::text;

/// An object whose field names are all known.
#[derive(Debug)]
pub struct Fields<'j> {
    fields: &'j BTreeMap<String, Json>,
    place: String,
}

/// A choice of words.
pub trait Word: Copy + PartialEq + 'static {
    /// The words, and what they mean.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for this.
    fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("", |(word, _)| word)
    }
}

impl<'j> Fields<'j> {
    /// The fields of `json`, which stands at `place`; all of its names must be `known`.
    pub fn of(json: &'j Json, place: impl Into<String>, known: &[&str]) -> Result<Self, Located> {
        let place = place.into();
        let Json::Object(fields) = json else {
            return unexpected(format!("an object with the fields {}", list(known)), json).at(place);
        };
        if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            let (field, known) = (text::shortened(unknown), list(known));
            return Err(Problem::UnknownField { field, known }).at(place);
        }
        Ok(Self { fields, place })
    }

    /// Where a field stands.
    pub fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// The field, if it is there.
    pub fn optional(&self, name: &str) -> Option<&'j Json> {
        self.fields.get(name).filter(|json| **json != Json::Null)
    }

    /// The field.
    pub fn required(
        &self,
        name: &'static str,
        expected: impl FnOnce() -> String,
    ) -> Result<&'j Json, Located> {
        let missing = || Problem::Missing { field: name, expected: expected() };
        self.fields.get(name).ok_or_else(missing).at(self.place.clone())
    }

    /// A number within its bounds.
    pub fn number<T: TryFrom<u64>>(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<T, Located> {
        let json = self.required(name, || bounds(&range))?;
        number(json, &range).at(self.place(name))
    }

    /// A number within its bounds, if it is there.
    pub fn optional_number<T: TryFrom<u64>>(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<T>, Located> {
        self.optional(name).map(|json| number(json, &range)).transpose().at(self.place(name))
    }

    /// One of a few numbers.
    pub fn one_of(&self, name: &'static str, numbers: &[u32]) -> Result<u32, Located> {
        let words = || numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
        let json = self.required(name, words)?;
        let found = numbers.iter().find(|number| *json == Json::Whole(u64::from(**number)));
        found.copied().map_or_else(|| unexpected(words(), json), Ok).at(self.place(name))
    }

    /// A name: some text without control characters.
    pub fn text(&self, name: &'static str) -> Result<String, Located> {
        let expected = || format!("text of 1 to {} characters", limits::NAME);
        let json = self.required(name, expected)?;
        let Json::Text(text) = json else { return unexpected(expected(), json).at(self.place(name)) };
        if text.is_empty() || text.chars().nth(limits::NAME).is_some() {
            let found = format!("{} characters", text.chars().count());
            return Err(Problem::Unexpected { expected: expected(), found }).at(self.place(name));
        }
        if text.chars().any(text::is_control) {
            let (expected, found) = ("text without control characters".into(), json.to_string());
            return Err(Problem::Unexpected { expected, found }).at(self.place(name));
        }
        Ok(text.clone())
    }

    /// One of a few words.
    pub fn word<T: Word>(&self, name: &'static str) -> Result<T, Located> {
        let json = self.required(name, || text::choice(T::WORDS.iter().map(|(word, _)| *word)))?;
        word(json).at(self.place(name))
    }

    /// One of a few words, if it is there.
    pub fn optional_word<T: Word>(&self, name: &str) -> Result<Option<T>, Located> {
        self.fields.get(name).map(word).transpose().at(self.place(name))
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &'static str) -> Result<bool, Located> {
        let json = self.required(name, || "`true` or `false`".into())?;
        flag(json).at(self.place(name))
    }

    /// `true` or `false`; false if it is not there.
    pub fn optional_flag(&self, name: &str) -> Result<bool, Located> {
        self.fields.get(name).map_or(Ok(false), flag).at(self.place(name))
    }

    /// A list of so many items, each read at its place.
    pub fn list<T>(
        &self,
        name: &'static str,
        (item, range): (&str, RangeInclusive<u64>),
        read: impl Fn(&Json, String) -> Result<T, Located>,
    ) -> Result<Vec<T>, Located> {
        let expected = || format!("a list of {} to {} {item}", range.start(), range.end());
        let json = self.required(name, expected)?;
        let items = items(json, &expected).at(self.place(name))?;
        if !range.contains(&(items.len() as u64)) {
            return unexpected(expected(), json).at(self.place(name));
        }
        let place = |index| format!("{}[{index}]", self.place(name));
        items.iter().enumerate().map(|(index, item)| read(item, place(index))).collect()
    }

    /// A list of numbers, of any length.
    pub fn numbers<T: TryFrom<u64>>(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Vec<T>, Located> {
        let expected = || "a list of whole numbers".to_owned();
        let json = self.required(name, expected)?;
        let items = items(json, &expected).at(self.place(name))?;
        let read = |(index, item)| {
            number(item, &range)
                .map_err(|problem| Located { place: format!("{}[{index}]", self.place(name)), problem })
        };
        items.iter().enumerate().map(read).collect()
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn bounds(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

fn unexpected<T>(expected: String, found: &Json) -> Result<T, Problem> {
    Err(Problem::Unexpected { expected, found: found.to_string() })
}

fn items<'j>(json: &'j Json, expected: &impl Fn() -> String) -> Result<&'j [Json], Problem> {
    if let Json::List(items) = json { Ok(items) } else { unexpected(expected(), json) }
}

fn number<T: TryFrom<u64>>(json: &Json, range: &RangeInclusive<u64>) -> Result<T, Problem> {
    let whole = if let Json::Whole(number) = json { Some(*number) } else { None };
    let number = whole.filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
    number.map_or_else(|| unexpected(bounds(range), json), Ok)
}

fn word<T: Word>(json: &Json) -> Result<T, Problem> {
    let meaning = |text: &String| T::WORDS.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning);
    let found = if let Json::Text(text) = json { meaning(text) } else { None };
    let expected = || text::choice(T::WORDS.iter().map(|(word, _)| *word));
    found.map_or_else(|| unexpected(expected(), json), Ok)
}

fn flag(json: &Json) -> Result<bool, Problem> {
    if let Json::Flag(flag) = json { Ok(*flag) } else { unexpected("`true` or `false`".into(), json) }
}
