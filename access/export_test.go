package access

// TokenName is the name of an issuer's subject.
var TokenName = tokenName

// NoScopes are those of a token that has none which mean something here.
func NoScopes() Scopes { return scopesOf(nil, "") }

// NewTicketMemory is the store of tickets that have no other.
func NewTicketMemory(most, all int) TicketStore {
	return newTicketMemory(most, all)
}
