//! Field adapters of the proto3 JSON mapping, as lenient on input as envd is.
//!
//! Integers come as numbers or strings, bytes as either base64 alphabet with or without padding,
//! enums by name or number, and `null` means the default. Output is canonical: 64-bit integers as
//! strings, padded standard base64, enums by name, defaults left out.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

/// Decodes either base64 alphabet, padded or not.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    if text.contains(['-', '_']) {
        URL_SAFE.decode(text)
    } else {
        STANDARD.decode(text)
    }
}

/// Encodes with the standard alphabet and padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Whether a field is left out of the output.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `null` as the default; anything else as the type itself reads it.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// An integer that fits in a JSON number: written as one, read from a number or a string.
pub(crate) mod int {
    use super::{Deserializer, IntVisitor, Integer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let read = deserializer.deserialize_any(IntVisitor::new())?;
        Ok(read.unwrap_or_default())
    }
}

/// As [`int`], absent when not set.
pub(crate) mod opt_int {
    use super::{Deserializer, IntVisitor, Integer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(IntVisitor::new())
    }
}

/// A 64-bit integer: written as a string, read from a number or a string.
pub(crate) mod int64 {
    use super::{Deserializer, IntVisitor, Integer, Serializer};

    pub(crate) fn serialize<T: Integer, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let read = deserializer.deserialize_any(IntVisitor::new())?;
        Ok(read.unwrap_or_default())
    }
}

/// As [`int64`], absent when not set.
pub(crate) mod opt_int64 {
    use super::{Deserializer, IntVisitor, Integer, Serializer};

    pub(crate) fn serialize<T: Integer, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(IntVisitor::new())
    }
}

/// Bytes as base64, absent when not set.
pub(crate) mod opt_bytes {
    use super::{Base64, Bytes, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.clone().map(Base64).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        Ok(Option::<Base64>::deserialize(deserializer)?.map(|read| read.0))
    }
}

/// A list of byte strings, each as base64.
pub(crate) mod bytes_list {
    use super::{Base64, Bytes, Deserializer, SerializeSeq, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[Bytes],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(values.len()))?;
        for value in values {
            seq.serialize_element(&Base64(value.clone()))?;
        }
        seq.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Bytes>, D::Error> {
        let read: Vec<Base64> = super::list::deserialize(deserializer)?;
        Ok(read.into_iter().map(|item| item.0).collect())
    }
}

/// A list of at most [`MAX_LIST_ITEMS`](crate::MAX_LIST_ITEMS) elements.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, ListVisitor, PhantomData};

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} items", crate::MAX_LIST_ITEMS)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // The size hint is the sender's word: nothing is reserved by it.
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == crate::MAX_LIST_ITEMS {
                return Err(de::Error::invalid_length(items.len() + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// Bytes as a base64 string.
struct Base64(Bytes);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode_base64(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Base64Visitor)
    }
}

struct Base64Visitor;

impl Visitor<'_> for Base64Visitor {
    type Value = Base64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a base64 string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
        decode_base64(text)
            .map(|bytes| Base64(bytes.into()))
            .map_err(|_| E::custom("invalid base64"))
    }
}

/// The integers of the messages.
pub(crate) trait Integer:
    Default + FromStr + TryFrom<u64> + TryFrom<i64> + fmt::Display
{
}

impl Integer for i32 {}
impl Integer for u32 {}
impl Integer for i64 {}
impl Integer for u64 {}

struct IntVisitor<T>(PhantomData<T>);

impl<T> IntVisitor<T> {
    const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Integer> Visitor<'_> for IntVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer in range, as a number or a string")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::try_from(value)
            .map(Some)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        T::try_from(value)
            .map(Some)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        // `1e3` and `5.0` are integers to proto3 JSON. Rust prints an integral float without a
        // fraction, so the text decides, with no lossy cast.
        let text = value.to_string();
        text.parse()
            .map(Some)
            .map_err(|_| E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse()
            .map(Some)
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Any JSON number as an unsigned one: negative as 0, fractions rounded up, too large as the
/// largest; so that a value out of range is refused by who knows the range.
pub(crate) fn saturating<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Some(whole) = number.as_u64() {
        return Ok(Some(whole));
    }
    let float = number.as_f64().unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturation is what is wanted, and what `as` does from floats"
    )]
    Ok(Some(float.ceil() as u64))
}

/// An enum that JSON names and proto numbers.
pub(crate) trait ProtoEnum {
    /// Number and JSON name of every value.
    const NAMES: &'static [(i32, &'static str)];
}

/// `#[serde(with = "json::Enum::<T>")]` for a field that holds a number of `T`.
pub(crate) struct Enum<T>(PhantomData<T>);

impl<T: ProtoEnum> Enum<T> {
    pub(crate) fn serialize<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match T::NAMES.iter().find(|(number, _)| number == value) {
            Some((_, name)) => serializer.serialize_str(name),
            // Open enums: a number that we do not know travels as a number.
            None => serializer.serialize_i32(*value),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        deserializer.deserialize_any(EnumVisitor(T::NAMES))
    }
}

struct EnumVisitor(&'static [(i32, &'static str)]);

impl Visitor<'_> for EnumVisitor {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or number of an enum value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<i32, E> {
        Ok(0)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i32, E> {
        self.0
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(number, _)| *number)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
