package access_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

// SE-10: what a ticket lets somebody do is the same behind a store that replicas share, and nothing more.
func TestATicketOutsideOfTheProcess(t *testing.T) {
	narrow, err := access.ParseScopes([]string{"workflows:team-*", "sessions", "agents"})
	if err != nil {
		t.Fatal(err)
	}
	expires := time.UnixMilli(1_900_000_000_123)
	for name, want := range map[string]access.Ticket{
		"all":     {Principal: access.Local, Method: "GET", Path: "/v1/runs/r%2F1", Expires: expires},
		"narrow":  {Principal: access.Principal{Name: "ann", Role: tool.Operator, Scopes: narrow}, Method: "GET", Path: "/", Expires: expires, Grant: access.Grant{Digest: [32]byte{1, 2}, Until: expires}},
		"nothing": {Principal: access.Principal{Name: "bo@issuer", Scopes: access.NoScopes()}, Method: "GET", Path: "/", Expires: expires},
	} {
		data, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got access.Ticket
		if err := got.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		for _, ask := range []func(access.Principal) bool{
			func(p access.Principal) bool { return p.Runs("team-a") }, func(p access.Principal) bool { return p.Runs("other") }, func(p access.Principal) bool { return p.Asks("x") },
			access.Principal.Remembers, access.Principal.Administers, func(p access.Principal) bool { return p.Scopes.All() },
		} {
			if ask(got.Principal) != ask(want.Principal) {
				t.Errorf("%s: it may do something else: %s", name, data)
			}
		}
		got.Principal.Scopes, want.Principal.Scopes = access.Scopes{}, access.Scopes{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	for _, bad := range []string{
		"", "{}", `{"name":"ann","role":"user","method":"GET","path":"/"}`, `{"name":"ann","role":"emperor","method":"GET","path":"/","expires":1}`,
		`{"name":"ann","role":"user","method":"GET","path":"/","expires":1,"scopes":["everything"]}`, `{"name":"ann","role":"user","method":"GET","path":"/","expires":1,"digest":"AQ=="}`,
	} {
		var got access.Ticket
		if got.UnmarshalBinary([]byte(bad)) == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}
