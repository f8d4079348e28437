// Package fingerprint computes the version of a Secret's content, byte for byte the hash that openstack-operator
// writes into status.secretHashes.
package fingerprint

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// content is the part of a Secret that counts. Names, order and omitempty are those of the struct that lib-common's
// secret.Hash marshals; its third field, stringData, is always empty in what an API server returns.
type content struct {
	Data map[string][]byte `json:"data,omitempty"`
	Type string            `json:"type,omitempty"`
}

// Of gives the version of a Secret with that data and type, both as read from the API server. No data and empty data
// are the same version; a key with an empty value counts. It is for content that was read: what could not be read is
// fleet.Unknown and has no fingerprint.
func Of(data map[string][]byte, secretType string) fleet.Version {
	text, err := json.Marshal(content{Data: data, Type: secretType})
	if err != nil {
		panic("fingerprint: bytes and strings can always be marshalled: " + err.Error())
	}
	return hash(text)
}

// hash is lib-common's util.ObjectHash after its json.Marshal.
func hash(text []byte) fleet.Version {
	return fleet.Version(safeEncode(fmt.Sprint(sha256.Sum256(text))))
}

// safeEncode is SafeEncodeString of k8s.io/apimachinery/pkg/util/rand, written out here because a version must stay
// what it is whatever a library's next release does. On the printed digest it is one-to-one.
func safeEncode(text string) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	encoded := make([]byte, len(text))
	for i := range encoded {
		encoded[i] = alphabet[int(text[i])%len(alphabet)]
	}
	return string(encoded)
}
