package access

// TokenName is the name of an issuer's subject.
var TokenName = tokenName

// NoScopes are those of a token that has none which mean something here.
func NoScopes() Scopes { return scopesOf(nil, "") }
