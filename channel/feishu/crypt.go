package feishu

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"time"
)

// errSealed is all that is said of a body that cannot be opened: which byte was wrong is nobody's business.
var errSealed = errors.New("feishu: the event cannot be decrypted with this encrypt_key")

// seal opens what the platform encrypts: base64 of an IV and of AES-256-CBC blocks with the padding of PKCS#7, under the SHA-256 of the
// app's Encrypt Key.
type seal struct {
	key   string
	block cipher.Block
}

func newSeal(key string) *seal {
	sum := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		panic("feishu: " + err.Error()) // 32 bytes are a key
	}
	return &seal{key: key, block: block}
}

// open decrypts. Whatever is wrong, the error is the same, and so is the work: the padding is looked at in constant time.
func (s *seal) open(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) < 2*aes.BlockSize || len(data)%aes.BlockSize != 0 {
		return nil, errSealed
	}
	iv, body := data[:aes.BlockSize], data[aes.BlockSize:]
	cipher.NewCBCDecrypter(s.block, iv).CryptBlocks(body, body)
	n := int(body[len(body)-1])
	good := subtle.ConstantTimeLessOrEq(1, n) & subtle.ConstantTimeLessOrEq(n, aes.BlockSize)
	for i := 1; i <= aes.BlockSize; i++ {
		within := subtle.ConstantTimeLessOrEq(i, n)
		same := subtle.ConstantTimeByteEq(body[len(body)-i], byte(n))
		good &= subtle.ConstantTimeSelect(within, same, 1)
	}
	if good != 1 {
		return nil, errSealed
	}
	return body[:len(body)-n], nil
}

// skew is how far the time of a request may be from ours.
const skew = 5 * time.Minute

// signed says whether the platform has signed a body with the Encrypt Key, now.
func (s *seal) signed(signature, timestamp, nonce string, body []byte, now time.Time) bool {
	h := sha256.New()
	h.Write([]byte(timestamp))
	h.Write([]byte(nonce))
	h.Write([]byte(s.key))
	h.Write(body)
	want := make([]byte, 0, 2*sha256.Size)
	want = hex.AppendEncode(want, h.Sum(nil))
	return subtle.ConstantTimeCompare(want, []byte(signature)) == 1 && fresh(timestamp, now)
}

// fresh says whether a time in seconds is about now.
func fresh(timestamp string, now time.Time) bool {
	n, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	return now.Sub(time.Unix(n, 0)).Abs() <= skew
}

// same compares secrets so that the time it takes tells nothing of them, nor of their length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
