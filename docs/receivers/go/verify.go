// Package webhook verifies X-Service-Signature. It uses only the standard library.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

var (
	timestamp = regexp.MustCompile(`\A(0|[1-9][0-9]{0,14})\z`)
	signature = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
)

// Verify reports whether the gateway signed rawBody, the unparsed request body. secrets are the complete whsec_… texts.
// Pass both secrets during a rotation. tolerance and now are in seconds: use 300 and time.Now().Unix().
func Verify(rawBody []byte, header string, secrets []string, tolerance, now int64) bool {
	var times []string
	var given [][]byte
	for _, part := range strings.Split(header, ",") {
		name, value, found := strings.Cut(part, "=")
		switch {
		case name == "t" && found:
			times = append(times, value)
		case name == "v1" && signature.MatchString(value):
			decoded, _ := hex.DecodeString(value)
			given = append(given, decoded)
		}
	}
	if len(times) != 1 || !timestamp.MatchString(times[0]) {
		return false
	}
	sent, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || now-sent > tolerance || sent-now > tolerance {
		return false
	}
	valid := false
	for _, secret := range secrets {
		// os.Getenv returns "" for an unset variable. Anyone could forge a signature with an empty key.
		if secret == "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(times[0] + "."))
		mac.Write(rawBody)
		expected := mac.Sum(nil)
		for _, value := range given {
			if hmac.Equal(expected, value) {
				valid = true
			}
		}
	}
	return valid
}

// net/http
//
//	rawBody, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
//	secrets := []string{os.Getenv("WEBHOOK_SECRET")}
//	if err != nil || !webhook.Verify(rawBody, r.Header.Get("X-Service-Signature"), secrets, 300, time.Now().Unix()) {
//		w.WriteHeader(http.StatusUnauthorized)
//		return
//	}
//	w.WriteHeader(http.StatusNoContent) // acknowledge within 5 s
//	queue <- rawBody                    // deliveries may repeat: deduplicate by X-Service-Delivery
