package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Refusals of tickets. Unknown, used and expired ones get the same.
var (
	ErrTicket = unauthorized("ticket", "the ticket is unknown, used, expired or for another path; request a new one")
	// ErrManyTickets is for a principal that has asked for many and used none, or for all of them together.
	ErrManyTickets = &Refusal{
		Status: http.StatusTooManyRequests, Code: "rate_limited", Reason: "tickets",
		Detail: "too many unused tickets; retry later",
	}
)

// Ticket is what a ticket stands for, as it is stored.
type Ticket struct {
	Principal Principal `json:"principal"`
	Method    string    `json:"method"` // "GET"
	Path      string    `json:"path"`   // as in the address, escapes included; paths below it are allowed too
	Expires   time.Time `json:"expires"`
	Grant     Grant     `json:"grant"` // of the caller; a stream that the ticket opens ends with it
}

// allows says whether a ticket is for a request. The path is compared segment by segment and as it was sent: no other way of writing
// it gets further.
func (t *Ticket) allows(method, escaped string) bool {
	rest, ok := strings.CutPrefix(escaped, t.Path)
	return ok && method == t.Method && (rest == "" || rest[0] == '/' || strings.HasSuffix(t.Path, "/")) && isClean(escaped)
}

// isClean says whether a path is written without detours.
func isClean(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "\\?#;") && !strings.Contains(strings.ToLower(p), "%2e") &&
		(path.Clean(p) == p || path.Clean(p)+"/" == p)
}

// MostTickets is how many tickets of all principals may wait to be used.
const MostTickets = 10_000

// TicketStore stores tickets. Servers with one store take each other's.
type TicketStore interface {
	// Add adds a value for a time, unless the key has one: then added is false. Beyond what it has room for it is [store.ErrFull].
	Add(ctx context.Context, key string, value []byte, life time.Duration) (added bool, err error)
	// Take removes and returns a value that fits; nil is none. Of several who take it at the same time, one gets it.
	Take(ctx context.Context, key string, fits func(value []byte) bool) ([]byte, error)
}

// TicketsOptions are the settings of tickets; zero means the default.
type TicketsOptions struct {
	Store TicketStore   // without one, no ticket is good
	Life  time.Duration // 60 s, at most 5 min
	Most  int           // tickets of one principal that wait to be used: 32, which is the most
}

// Tickets are good once, for a short time, for one principal and one place. They are written in addresses, where keys must not be:
// histories and logs keep addresses.
type Tickets struct{ o TicketsOptions }

// The text of a ticket is its mark, where it is kept, and 160 random bits. Each principal has so many places as it may have tickets: who
// finds one free has room, at whichever server.
const (
	ticketMark    = "lst_"
	ownerLength   = 13 // of 64 bits
	placeLength   = ownerLength + 1
	ticketLength  = len(ticketMark) + placeLength + 32
	mostTickets   = 32 // letters
	maxTicketPath = 1024
	maxTicketLife = 5 * time.Minute
)

// errTicketsAway is the refusal while the store cannot be reached.
var errTicketsAway = &Refusal{
	Status: http.StatusServiceUnavailable, Code: "overloaded", Reason: "database",
	Detail: "tickets cannot be looked up now; try again in a moment", RetryAfter: 2 * time.Second,
}

// NewTickets returns tickets.
func NewTickets(o TicketsOptions) *Tickets {
	if o.Life <= 0 {
		o.Life = time.Minute
	}
	o.Life = min(o.Life, maxTicketLife)
	if o.Most <= 0 || o.Most > mostTickets {
		o.Most = mostTickets
	}
	return &Tickets{o: o}
}

// Issue makes a ticket for requests with a method at a path, and below it. It is good for no longer than what has let its visitor in. The
// text is returned, and when it stops being good.
func (t *Tickets) Issue(ctx context.Context, v Visitor, method, path string) (string, time.Time, error) {
	p := v.Principal
	switch {
	case p.Unknown():
		return "", time.Time{}, ErrNobody
	case method != http.MethodGet:
		return "", time.Time{}, &Refusal{Status: http.StatusBadRequest, Code: "invalid_request", Reason: "ticket_method", Detail: "a ticket is only for GET; send other requests with an Authorization header"}
	case len(path) > maxTicketPath || !isClean(path):
		return "", time.Time{}, &Refusal{
			Status: http.StatusBadRequest, Code: "invalid_request", Reason: "ticket_path",
			Detail: fmt.Sprintf("expected the path of an address, without a query, of at most %d bytes", maxTicketPath),
		}
	}
	ticket := Ticket{Principal: p, Method: method, Path: path, Expires: time.Now().Add(t.o.Life), Grant: v.Grant}
	text, err := t.keep(ctx, ticket)
	if err != nil {
		return "", time.Time{}, err
	}
	return text, ticket.Expires, nil
}

// keep stores a ticket at a free place of its principal, and returns its text.
func (t *Tickets) keep(ctx context.Context, ticket Ticket) (string, error) {
	data, err := json.Marshal(ticket)
	if err != nil {
		return "", err
	}
	var secret [20]byte
	rand.Read(secret[:])
	owner := sha256.Sum256([]byte(ticket.Principal.Name))
	begin := ticketMark + letters.EncodeToString(owner[:8])
	first := int(secret[0]) % t.o.Most
	for i := range t.o.Most {
		text := begin + alphabet[(first+i)%t.o.Most:][:1] + letters.EncodeToString(secret[:])
		if t.o.Store == nil {
			return text, nil
		}
		sum := digest(text)
		added, err := t.o.Store.Add(ctx, ticketKey(text), append(sum[:], data...), time.Until(ticket.Expires))
		switch {
		case added:
			return text, nil
		case errors.Is(err, store.ErrFull):
			return "", ErrManyTickets.later(t.o.Life)
		case err != nil: // a place of which the answer was lost is free again when the ticket expires
			return "", ticketError(err)
		}
	}
	return "", ErrManyTickets.later(t.o.Life)
}

// ticketKey is where a ticket is kept.
func ticketKey(text string) string {
	text = text[len(ticketMark):]
	return text[:ownerLength] + "/" + text[ownerLength:placeLength]
}

// ticketError is the refusal for an error of the store.
func ticketError(err error) error {
	if errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure) {
		return errTicketsAway
	}
	return err
}

// Redeem returns whose ticket a text is that comes with a request, and what let them in. It is used up by that, also where it is for
// something else, or if the answer of the store is lost. Of several who send it at the same time, one gets in.
func (t *Tickets) Redeem(ctx context.Context, text string, r *http.Request) (Visitor, error) {
	if t.o.Store == nil || len(text) != ticketLength || !strings.HasPrefix(text, ticketMark) {
		return Visitor{}, ErrTicket
	}
	sum := digest(text)
	stored, err := t.o.Store.Take(ctx, ticketKey(text), func(stored []byte) bool {
		return len(stored) >= len(sum) && subtle.ConstantTimeCompare(sum[:], stored[:len(sum)]) == 1
	})
	switch {
	case err != nil:
		return Visitor{}, ticketError(err)
	case stored == nil:
		return Visitor{}, ErrTicket
	}
	var ticket Ticket
	if err := json.Unmarshal(stored[len(sum):], &ticket); err != nil { // also if it has an unknown scope
		return Visitor{}, fmt.Errorf("access: invalid ticket: %w", err)
	}
	if !time.Now().Before(ticket.Expires) || !ticket.allows(r.Method, r.URL.EscapedPath()) {
		return Visitor{}, ErrTicket
	}
	return Visitor{Principal: ticket.Principal, By: "ticket", Grant: ticket.Grant}, nil
}
