//! TLS on listeners: what was asked for ([`settings`]).

pub mod settings;
