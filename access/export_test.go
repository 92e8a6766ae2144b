package access

// TokenName is the name of an issuer's subject.
var TokenName = tokenName
