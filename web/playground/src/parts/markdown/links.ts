// Which addresses of foreign text may be links.

export interface Link {
  href: string;
  /** Where it goes, for a person: the host, or who the mail is to. */
  where: string;
}

/**
 * The link that an address may be: to another web server, or to write a mail. Undefined for all else: what runs or carries code, what
 * is relative or leads to this server (a click would act in this page's name), and what hides its host behind a name.
 */
export function linkOf(address: string, here: string): Link | undefined {
  if (address.length > 2048 || !/^(?:https?|mailto):/i.test(address)) return undefined;
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return undefined;
  }
  if (url.protocol === "mailto:") {
    const to = decode(url.pathname);
    return /^[^\s@,;?&%]+@[^\s@,;?&%]+$/.test(to) ? { href: "mailto:" + to, where: to } : undefined;
  }
  if (url.username !== "" || url.password !== "" || url.origin === here) return undefined;
  return { href: url.href, where: url.host };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
