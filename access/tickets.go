package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Refusals of tickets. Whether one was never there, was used or has expired is not told apart: whoever has it knows.
var (
	ErrTicket = unauthorized("ticket", "the ticket is unknown, used, expired or for another path; request a new one")
	// ErrManyTickets is of a principal that has asked for many and used none, or of all of them together.
	ErrManyTickets = &Refusal{
		Status: http.StatusTooManyRequests, Code: "rate_limited", Reason: "tickets",
		Detail: "too many unused tickets; retry later",
	}
)

// Ticket is what a ticket stands for.
type Ticket struct {
	Principal Principal
	Method    string // "GET"
	Path      string // as it stands in the address, escapes included; what is below it is meant, too
	Expires   time.Time
	Grant     Grant // what has let in who has asked for it: a stream that it opens goes on no longer than that counts
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

// TicketDigest is what a store knows of a ticket's text: its SHA-256.
type TicketDigest [sha256.Size]byte

// TicketStore keeps tickets. One that several servers share makes each good at any of them.
type TicketStore interface {
	// Put keeps a ticket until it expires. The error may be ErrManyTickets.
	Put(ctx context.Context, d TicketDigest, t Ticket) error
	// Take returns a ticket and forgets it, in one step: of several that ask at the same time, one gets it. ok is false where there
	// is none.
	Take(ctx context.Context, d TicketDigest) (t Ticket, ok bool, err error)
}

// TicketsOptions are the settings of tickets; zero means the default.
type TicketsOptions struct {
	Store TicketStore   // memory
	Life  time.Duration // 60 s, at most 5 min
	Most  int           // that wait to be used, of one principal: 32; of the memory alone
	All   int           // and of all together: 10000
}

// Tickets are good once, for a short time, for one principal and one place. They stand in an address, which is where keys must not:
// an address is kept in histories and logs.
type Tickets struct{ o TicketsOptions }

const (
	ticketMark = "lst_"
	// ticketLength is that of 160 random bits behind the mark.
	ticketLength = len(ticketMark) + 32
	// maxTicketPath bounds what a caller makes the server keep.
	maxTicketPath = 1024
	maxTicketLife = 5 * time.Minute
)

// NewTickets returns tickets.
func NewTickets(o TicketsOptions) *Tickets {
	if o.Life <= 0 {
		o.Life = time.Minute
	}
	o.Life = min(o.Life, maxTicketLife)
	if o.Most <= 0 {
		o.Most = 32
	}
	if o.All <= 0 {
		o.All = 10_000
	}
	if o.Store == nil {
		o.Store = newTicketMemory(o.Most, o.All)
	}
	return &Tickets{o: o}
}

// Issue makes a ticket for requests with a method at a path, and below it. The text is returned, and when it stops being good.
func (t *Tickets) Issue(ctx context.Context, p Principal, method, path string) (string, time.Time, error) {
	return t.IssueTo(ctx, Visitor{Principal: p}, method, path)
}

// IssueTo makes one that is good for no longer than what has let its visitor in.
func (t *Tickets) IssueTo(ctx context.Context, v Visitor, method, path string) (string, time.Time, error) {
	p := v.Principal
	switch {
	case p.Nobody():
		return "", time.Time{}, ErrNobody
	case method != http.MethodGet:
		return "", time.Time{}, &Refusal{Status: http.StatusBadRequest, Code: "invalid_request", Reason: "ticket_method", Detail: "a ticket is only for GET; send other requests with an Authorization header"}
	case len(path) > maxTicketPath || !isClean(path):
		return "", time.Time{}, &Refusal{
			Status: http.StatusBadRequest, Code: "invalid_request", Reason: "ticket_path",
			Detail: fmt.Sprintf("expected the path of an address, without a query, of at most %d bytes", maxTicketPath),
		}
	}
	var secret [20]byte
	rand.Read(secret[:])
	text := ticketMark + letters.EncodeToString(secret[:])
	expires := time.Now().Add(t.o.Life)
	err := t.o.Store.Put(ctx, TicketDigest(digest(text)), Ticket{Principal: p, Method: method, Path: path, Expires: expires, Grant: v.Grant})
	if err != nil {
		if errors.Is(err, ErrManyTickets) {
			return "", time.Time{}, ErrManyTickets.later(t.o.Life)
		}
		return "", time.Time{}, err
	}
	return text, expires, nil
}

// Redeem returns whose ticket a text is that comes with a request. It is used up by that, also where it is for something else.
func (t *Tickets) Redeem(ctx context.Context, text string, r *http.Request) (Principal, error) {
	p, _, err := t.redeem(ctx, text, r)
	return p, err
}

func (t *Tickets) redeem(ctx context.Context, text string, r *http.Request) (Principal, Grant, error) {
	if len(text) != ticketLength || !strings.HasPrefix(text, ticketMark) {
		return Principal{}, Grant{}, ErrTicket
	}
	ticket, ok, err := t.o.Store.Take(ctx, TicketDigest(digest(text)))
	switch {
	case err != nil:
		return Principal{}, Grant{}, err
	case !ok || !time.Now().Before(ticket.Expires) || !ticket.allows(r.Method, r.URL.EscapedPath()):
		return Principal{}, Grant{}, ErrTicket
	}
	return ticket.Principal, ticket.Grant, nil
}

// ticketMemory keeps tickets in memory. All live equally long, so the oldest is the first to expire.
type ticketMemory struct {
	most, all int

	mu           sync.Mutex
	byStart      map[uint64]*heldTicket // by the first bytes of digests
	of           map[string]int         // how many each principal has
	first, newer *heldTicket            // of a list in the order of issue: the oldest and the newest
}

func newTicketMemory(most, all int) *ticketMemory {
	return &ticketMemory{most: most, all: all, byStart: map[uint64]*heldTicket{}, of: map[string]int{}}
}

type heldTicket struct {
	Ticket
	digest       TicketDigest
	older, newer *heldTicket
}

// Put implements [TicketStore].
func (m *ticketMemory) Put(_ context.Context, d TicketDigest, t Ticket) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for m.first != nil && !now.Before(m.first.Expires) {
		m.remove(m.first)
	}
	start := binary.LittleEndian.Uint64(d[:])
	if _, there := m.byStart[start]; there || m.of[t.Principal.Name] >= m.most || len(m.byStart) >= m.all {
		return ErrManyTickets // two tickets that begin alike are 2^64 to one against
	}
	h := &heldTicket{Ticket: t, digest: d, older: m.newer}
	if m.newer != nil {
		m.newer.newer = h
	} else {
		m.first = h
	}
	m.newer = h
	m.byStart[start] = h
	m.of[t.Principal.Name]++
	return nil
}

// Take implements [TicketStore].
func (m *ticketMemory) Take(_ context.Context, d TicketDigest) (Ticket, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.byStart[binary.LittleEndian.Uint64(d[:])]
	if h == nil || subtle.ConstantTimeCompare(h.digest[:], d[:]) != 1 {
		return Ticket{}, false, nil
	}
	m.remove(h)
	return h.Ticket, true, nil
}

// remove takes a ticket out. The lock is held.
func (m *ticketMemory) remove(h *heldTicket) {
	if h.older != nil {
		h.older.newer = h.newer
	} else {
		m.first = h.newer
	}
	if h.newer != nil {
		h.newer.older = h.older
	} else {
		m.newer = h.older
	}
	delete(m.byStart, binary.LittleEndian.Uint64(h.digest[:]))
	name := h.Principal.Name
	if m.of[name]--; m.of[name] == 0 {
		delete(m.of, name)
	}
}
