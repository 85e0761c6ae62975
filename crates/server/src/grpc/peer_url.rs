//! Which peer URLs etcd accepts.

#[cfg(test)]
mod tests;

/// The URLs without surrounding space, in order; None if there is none, or if any is not of the
/// form etcd asks for.
pub(super) fn parse(urls: &[String]) -> Option<Vec<String>> {
    let urls: Vec<String> = urls.iter().map(|url| url.trim().to_owned()).collect();
    (!urls.is_empty() && urls.iter().all(|url| is_peer_url(url))).then_some(urls)
}

/// `http` and `https` need exactly a host and a port; for a socket in the file system anything
/// goes.
fn is_peer_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => rest.strip_prefix("//").is_some_and(is_host_and_port),
        "unix" | "unixs" => true,
        _ => false,
    }
}

fn is_host_and_port(rest: &str) -> bool {
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    if authority.contains('/') {
        return false;
    }
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    (is_bracketed || !host.contains([':', '[', ']', ' '])) && port.bytes().all(|b| b.is_ascii_digit())
}
