package access_test

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
)

// What a key lets in goes on until the key expires, and a ticket is good for no longer than the key that it was given for.
func TestAGrantEndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, text := access.NewKey(access.Principal{Name: "ann"}, time.Now().Add(time.Hour))
		keys, err := access.NewKeys(access.KeysOptions{Entries: []string{key.Entry()}})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		d := &access.Door{Keys: keys, Tickets: newTickets(t, access.TicketsOptions{})}
		v, err := d.Identify(t.Context(), text)
		if err != nil || !d.Holds(v.Grant) || v.Grant == (access.Grant{}) {
			t.Fatalf("%+v, %v", v, err)
		}
		time.Sleep(time.Hour - 30*time.Second)
		var tickets []string
		for range 2 {
			ticket, _, err := d.Tickets.Issue(t.Context(), v, "GET", "/v1")
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		by, err := d.Enter(httptest.NewRequest("GET", "/v1/runs?ticket="+tickets[0], nil))
		if err != nil || by.Grant != v.Grant {
			t.Errorf("%+v, %v", by, err)
		}
		time.Sleep(30 * time.Second)
		if d.Holds(v.Grant) {
			t.Error("it holds longer than its key")
		}
		if _, err := d.Enter(httptest.NewRequest("GET", "/v1/runs?ticket="+tickets[1], nil)); err != access.ErrTicket {
			t.Errorf("a ticket of a key that has expired: %v", err)
		}
		if !(&access.Door{}).Holds(v.Grant) {
			t.Error("a door that is open keeps somebody out")
		}
	})
}

// A grant without a key is a token's: it ends at its own time.
func TestAGrantEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := access.NewKeys(access.KeysOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		d := &access.Door{Keys: keys}
		g := access.Grant{Until: time.Now().Add(time.Hour)}
		time.Sleep(time.Hour - 1)
		if !d.Holds(g) {
			t.Error("the grant ended before its time")
		}
		time.Sleep(time.Nanosecond)
		if d.Holds(g) {
			t.Error("the grant holds at the end of its time")
		}
		time.Sleep(time.Hour)
		if d.Holds(g) {
			t.Error("the grant holds after its time")
		}
		if !d.Holds(access.Grant{}) {
			t.Error("a grant without an end has ended")
		}
	})
}

// DS-02: a key is revoked by its entry, or by the lack of one; a key that has only expired is not revoked.
func TestAKeyIsRevokedByItsEntry(t *testing.T) {
	var entries []string
	grants := map[string]access.Grant{}
	for _, name := range []string{"valid", "expired", "revoked", "deleted"} {
		key, text := access.NewKey(access.Principal{Name: "ann"}, time.Time{})
		keys, err := access.NewKeys(access.KeysOptions{Entries: []string{key.Entry()}})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		v, err := (&access.Door{Keys: keys}).Identify(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		grants[name] = v.Grant
		if name == "expired" {
			key.Expires = time.Unix(1, 0)
		}
		key.Revoked = name == "revoked"
		if name != "deleted" {
			entries = append(entries, key.Entry())
		}
	}
	keys, err := access.NewKeys(access.KeysOptions{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	d := &access.Door{Keys: keys}
	for name, grant := range grants {
		if got, want := d.Revoked(grant.KeyTag()), name == "revoked" || name == "deleted"; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if d.Revoked(access.Grant{}.KeyTag()) || d.Revoked("nonsense") || (&access.Door{}).Revoked(grants["revoked"].KeyTag()) {
		t.Error("what no key started counts as revoked")
	}
}
