package trackmap

// Position gives the resourceVersion up to which everything had been seen when the ConfigMap "" with that data was
// written. Errors are those of Decode.
func Position(data map[string]string) (uint64, error) {
	m, err := open(data)
	return m.AsOf, err
}
