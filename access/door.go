package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Refusals of requests that do not say who asks.
var (
	ErrNobody     = unauthorized("none", "this request needs an API key; send the header Authorization: Bearer KEY")
	ErrCredential = unauthorized("malformed", "the header Authorization is invalid; expected one Authorization: Bearer KEY")
)

// TicketParameter is the name of a ticket in a query.
const TicketParameter = "ticket"

// Door finds out who sends a request, by what is set up. A door without keys and tokens lets everybody in as [Local].
type Door struct {
	Keys    *Keys
	Tokens  *Tokens
	Tickets *Tickets
}

// Open reports whether requests need no key and no token.
func (d *Door) Open() bool { return d == nil || d.Keys == nil && d.Tokens == nil }

// Visitor is who sends a request, and how that is known.
type Visitor struct {
	Principal
	By  string // "key", "token", "ticket"; "" if the door is open
	Key string // id of the key
	// Grant says for how long it counts.
	Grant Grant
}

// Enter returns who sends a request. The error is a [Refusal], or that of the request's context, or of a store of tickets that cannot be
// reached; the visitor is then unknown. With ErrExpiredKey and ErrRevokedKey it has the key's id, for the log.
//
// A ticket counts where there is no header, and is used up by it.
func (d *Door) Enter(r *http.Request) (Visitor, error) {
	if d.Open() {
		return Visitor{Principal: Local}, nil
	}
	text, err := bearer(r.Header)
	switch {
	case err != nil:
		return Visitor{}, err
	case text != "":
		return d.Identify(r.Context(), text)
	}
	if ticket := ticketOf(r.URL.RawQuery); ticket != "" && d.Tickets != nil {
		v, err := d.Tickets.Redeem(r.Context(), ticket, r)
		if err == nil && !d.Holds(v.Grant) { // the key that it was given for was taken away meanwhile
			return Visitor{}, ErrTicket
		}
		return v, err
	}
	return Visitor{}, ErrNobody
}

// Identify returns who has a key or token.
func (d *Door) Identify(ctx context.Context, text string) (Visitor, error) {
	// What is meant to be a JWT, and not an API key, begins as the JSON of a header does in base64, and has dots.
	isToken := strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2
	if d.Tokens != nil && (d.Keys == nil || isToken) {
		return d.Tokens.Check(ctx, text)
	}
	if d.Keys == nil {
		return Visitor{}, ErrUnknownKey
	}
	key, err := d.Keys.Find(text)
	switch {
	case err == nil:
		return Visitor{Principal: key.Principal, By: "key", Key: key.ID, Grant: Grant{Digest: key.digest}}, nil
	case key != nil:
		return Visitor{Key: key.ID}, err
	}
	return Visitor{}, err
}

// bearer returns the key or token of a request, or "".
func bearer(h http.Header) (string, error) {
	const scheme = "bearer "
	values := h["Authorization"]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || len(values[0]) <= len(scheme) || !strings.EqualFold(values[0][:len(scheme)], scheme) {
		return "", ErrCredential
	}
	text := strings.Trim(values[0][len(scheme):], " ")
	if text == "" || strings.ContainsAny(text, " ,\t") {
		return "", ErrCredential
	}
	return text, nil
}

// ticketOf returns the ticket of a query, or "".
func ticketOf(query string) string {
	values, _ := url.ParseQuery(query)
	if len(values[TicketParameter]) != 1 {
		return ""
	}
	return values[TicketParameter][0]
}

// HasTicket says whether a request's address has a ticket in it, good or not.
func HasTicket(r *http.Request) bool {
	return strings.Contains(r.URL.RawQuery, TicketParameter) && r.URL.Query().Has(TicketParameter)
}

// WithoutTicket returns the request without the ticket in its address, which handlers do not know and logs must not have. It returns r if
// the address has no ticket.
func WithoutTicket(r *http.Request) *http.Request {
	if !HasTicket(r) {
		return r
	}
	kept := slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		return err == nil && plain == TicketParameter
	})
	without, address := *r, *r.URL
	address.RawQuery = strings.Join(kept, "&")
	without.URL, without.RequestURI = &address, address.RequestURI()
	return &without
}

// Challenge is the header WWW-Authenticate that an answer with a refusal has whose status is 401; "" for others (RFC 6750).
func (r *Refusal) Challenge() string {
	if r.Status != http.StatusUnauthorized {
		return ""
	}
	if r.Reason == ErrNobody.Reason { // who has shown nothing did nothing wrong
		return `Bearer realm="lingserve"`
	}
	return `Bearer realm="lingserve", error="invalid_token", error_description="` + strings.ReplaceAll(r.Detail, `"`, "'") + `"`
}
