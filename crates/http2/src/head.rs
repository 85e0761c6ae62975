//! The head of a request: what its header block says, and whether it may say so.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Request, Uri, Version, uri};

use crate::hpack::{Field, Name};

/// Method, path and headers of a request, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: Method,
    pub scheme: HeaderValue,
    pub authority: Option<HeaderValue>,
    pub path: HeaderValue,
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// What the body has to be as long as.
    pub(crate) content_length: Option<u64>,
    /// Bytes of all fields, counted as RFC 9113 does.
    pub(crate) size: usize,
}

impl Head {
    /// The value of the first field of that name.
    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// As a request. None: the path or the authority is none.
    pub(crate) fn request<B>(&self, body: B) -> Option<Request<B>> {
        let mut parts = uri::Parts::default();
        parts.path_and_query = Some(uri::PathAndQuery::try_from(self.path.as_bytes()).ok()?);
        if let Some(authority) = &self.authority {
            parts.authority = Some(uri::Authority::try_from(authority.as_bytes()).ok()?);
            parts.scheme = Some(uri::Scheme::try_from(self.scheme.as_bytes()).ok()?);
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        headers.reserve(self.fields.len());
        for (name, value) in &self.fields {
            headers.append(name.clone(), value.clone());
        }
        Some(request)
    }
}

/// Why a header block is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It breaks the rules of HTTP.
    Malformed,
    /// More than the limit.
    TooLarge,
}

/// Puts a head together, field by field.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    limit: usize,
    size: usize,
    method: Option<HeaderValue>,
    scheme: Option<HeaderValue>,
    authority: Option<HeaderValue>,
    path: Option<HeaderValue>,
    fields: Vec<(HeaderName, HeaderValue)>,
    content_length: Option<u64>,
    is_malformed: bool,
}

impl Draft {
    pub(crate) fn new(limit: usize) -> Draft {
        Draft { limit, ..Draft::default() }
    }

    /// What is beyond the limit is counted and not kept.
    pub(crate) fn add(&mut self, field: &Field) {
        self.size += field.size;
        if self.size > self.limit || self.is_malformed {
            return;
        }
        match &field.name {
            Name::Header(name) => self.add_header(name, &field.value),
            Name::Malformed | Name::Status => self.is_malformed = true,
            Name::Method => self.is_malformed |= is_second(&mut self.method, field, &self.fields),
            Name::Scheme => self.is_malformed |= is_second(&mut self.scheme, field, &self.fields),
            Name::Authority => self.is_malformed |= is_second(&mut self.authority, field, &self.fields),
            Name::Path => self.is_malformed |= is_second(&mut self.path, field, &self.fields),
        }
    }

    fn add_header(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.is_malformed |= match *name {
            TE => value != "trailers",
            CONNECTION | TRANSFER_ENCODING | UPGRADE => true,
            CONTENT_LENGTH => !self.set_content_length(value),
            _ => matches!(name.as_str(), "keep-alive" | "proxy-connection"),
        };
        self.fields.push((name.clone(), value.clone()));
    }

    fn set_content_length(&mut self, value: &HeaderValue) -> bool {
        let digits = value.as_bytes();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let is_first = self.content_length.is_none();
        self.content_length = length;
        is_number && is_first && length.is_some()
    }

    /// As the head of a request.
    pub(crate) fn request(self) -> Result<Head, Refusal> {
        if self.size > self.limit {
            return Err(Refusal::TooLarge);
        }
        let (Some(method), Some(scheme), Some(path)) = (self.method, self.scheme, self.path) else {
            return Err(Refusal::Malformed);
        };
        let Ok(method) = Method::from_bytes(method.as_bytes()) else { return Err(Refusal::Malformed) };
        if self.is_malformed || path.is_empty() || method == Method::CONNECT {
            return Err(Refusal::Malformed);
        }
        let (authority, fields, content_length) = (self.authority, self.fields, self.content_length);
        Ok(Head { method, scheme, authority, path, fields, content_length, size: self.size })
    }

    /// As trailers, which have no pseudo-headers. True: they may pass.
    pub(crate) fn is_good_as_trailers(&self) -> bool {
        let pseudo = [&self.method, &self.scheme, &self.authority, &self.path];
        !self.is_malformed && self.size <= self.limit && pseudo.iter().all(|field| field.is_none())
    }
}

/// Sets a pseudo-header; true if it was there already, or if other fields were before it.
fn is_second(place: &mut Option<HeaderValue>, field: &Field, fields: &[(HeaderName, HeaderValue)]) -> bool {
    place.replace(field.value.clone()).is_some() || !fields.is_empty()
}

/// The headers of an answer with what every answer has: a date, and its length if that is known.
pub(crate) fn complete(headers: &mut HeaderMap, exact_length: Option<u64>) {
    use http::header::{DATE, Entry};
    // HTTP/2 has no use for these, and clients may refuse them.
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if let Some(length) = exact_length
        && let Entry::Vacant(place) = headers.entry(CONTENT_LENGTH)
    {
        place.insert(HeaderValue::from(length));
    }
    if let Entry::Vacant(place) = headers.entry(DATE) {
        let now = Bytes::from(httpdate::fmt_http_date(std::time::SystemTime::now()));
        if let Ok(now) = HeaderValue::from_maybe_shared(now) {
            place.insert(now);
        }
    }
    debug_assert!(!headers.contains_key(HOST), "an answer has no host");
}
