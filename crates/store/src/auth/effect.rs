//! What a change of users and roles leaves behind, and its bytes.
//!
//! The journal carries these, never what was asked for. The same bytes are the section of a
//! checkpoint that holds all users and roles: it reads as the one change that makes them out of
//! nothing. docs/format.md draws them.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes};

use crate::payload::{BadCommand, take, take_i64, take_u8, take_u32};

use super::state::{Permission, PermissionKind, Role, User};

const ENABLED: u8 = 0;
const USER: u8 = 1;
const USER_GONE: u8 = 2;
const ROLE: u8 = 3;
const ROLE_GONE: u8 = 4;

const NO_PASSWORD: u8 = 1;

/// One change: the auth revision after it, and what is different then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) revision: u64,
    pub(crate) effects: Vec<Effect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Enabled(bool),
    /// The user as it is from now on, or none.
    User(String, Option<User>),
    Role(String, Option<Role>),
}

impl Effects {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.revision);
        for effect in &self.effects {
            match effect {
                Effect::Enabled(on) => framed(out, ENABLED, |out| out.put_u8(u8::from(*on))),
                Effect::User(name, Some(user)) => framed(out, USER, |out| put_user(out, name, user)),
                Effect::User(name, None) => framed(out, USER_GONE, |out| out.put_slice(name.as_bytes())),
                Effect::Role(name, Some(role)) => framed(out, ROLE, |out| put_role(out, name, role)),
                Effect::Role(name, None) => framed(out, ROLE_GONE, |out| out.put_slice(name.as_bytes())),
            }
        }
    }

    /// Takes all of `body`.
    pub(crate) fn decode(body: &mut &[u8]) -> Result<Effects, BadCommand> {
        let revision = take_i64(body)? as u64;
        let mut effects = Vec::new();
        while !body.is_empty() {
            let tag = take_u8(body)?;
            let len = take_u32(body)? as usize;
            let mut bytes = take(body, len)?;
            let effect = take_effect(tag, &mut bytes)?;
            if !bytes.is_empty() {
                return Err(BadCommand::Trailing(tag));
            }
            effects.push(effect);
        }
        Ok(Effects { revision, effects })
    }
}

fn framed(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u8(tag);
    let at = out.len();
    out.put_u32_le(0);
    body(out);
    let len = len_u32(out.len() - at - 4);
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("requests are far below 4 GiB")
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(len_u32(bytes.len()));
    out.put_slice(bytes);
}

fn put_user(out: &mut Vec<u8>, name: &str, user: &User) {
    put_bytes(out, name.as_bytes());
    out.put_u8(if user.no_password { NO_PASSWORD } else { 0 });
    put_bytes(out, &user.password);
    user.roles.iter().for_each(|role| put_bytes(out, role.as_bytes()));
}

fn put_role(out: &mut Vec<u8>, name: &str, role: &Role) {
    put_bytes(out, name.as_bytes());
    for permission in &role.permissions {
        out.put_i32_le(permission.kind.number());
        put_bytes(out, &permission.key);
        put_bytes(out, &permission.range_end);
    }
}

fn take_effect(tag: u8, body: &mut &[u8]) -> Result<Effect, BadCommand> {
    Ok(match tag {
        ENABLED => Effect::Enabled(match take_u8(body)? {
            0 => false,
            1 => true,
            _ => return Err(BadCommand::Misfit("neither on nor off")),
        }),
        USER => take_user(body)?,
        USER_GONE => Effect::User(text(std::mem::take(body))?, None),
        ROLE => take_role(body)?,
        ROLE_GONE => Effect::Role(text(std::mem::take(body))?, None),
        tag => return Err(BadCommand::UnknownTag(tag)),
    })
}

fn take_user(body: &mut &[u8]) -> Result<Effect, BadCommand> {
    let name = text(take_bytes(body)?)?;
    let no_password = match take_u8(body)? {
        0 => false,
        NO_PASSWORD => true,
        _ => return Err(BadCommand::Misfit("unknown property of a user")),
    };
    let password = Bytes::copy_from_slice(take_bytes(body)?);
    let mut roles = BTreeSet::new();
    while !body.is_empty() {
        let role = text(take_bytes(body)?)?;
        if roles.last().is_some_and(|last| *last >= role) {
            return Err(BadCommand::Misfit("roles of a user out of order"));
        }
        roles.insert(role);
    }
    Ok(Effect::User(name, Some(User { password, no_password, roles })))
}

fn take_role(body: &mut &[u8]) -> Result<Effect, BadCommand> {
    let name = text(take_bytes(body)?)?;
    let mut permissions = Vec::new();
    while !body.is_empty() {
        permissions.push(Permission {
            kind: PermissionKind::of_number(take_u32(body)? as i32),
            key: Bytes::copy_from_slice(take_bytes(body)?),
            range_end: Bytes::copy_from_slice(take_bytes(body)?),
        });
    }
    Ok(Effect::Role(name, Some(Role { permissions })))
}

fn take_bytes<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], BadCommand> {
    let len = take_u32(body)? as usize;
    take(body, len)
}

fn text(bytes: &[u8]) -> Result<String, BadCommand> {
    String::from_utf8(bytes.to_vec()).map_err(|_| BadCommand::Misfit("a name that is no text"))
}
