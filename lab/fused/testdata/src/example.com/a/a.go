// Package a holds what the check must find, and what it must not.
package a

import (
	"math"

	"example.com/a/b"
)

type length float64

type cost struct{ memory, total float64 }

func scale(x, y float64) float64   { return x * y }       // want scale:"product"
func scaled(x, y float64) float64  { return scale(x, y) } // want scaled:"product"
func rounded(x, y float64) float64 { return float64(x * y) }

var half = 0.5

var sum = half*half + half // want `product half \* half`

func found(x, y, z float64, f float32, l length, c *cost) {
	_ = x*y + z            // want `product x \* y`
	_ = z + x*y            // want `product x \* y`
	_ = z - (x * y)        // want `product \(x \* y\)`
	_ = -(x * y) + z       // want `product -\(x \* y\)`
	_ = float64(x*y) + z*z // want `product z \* z`
	_ = x/z + x*y*z        // want `product x \* y \* z`
	_ = f*f + f            // want `product f \* f`
	_ = l*l + l            // want `product l \* l`
	_ = z + x/2            // want `product x / 2`
	_ = math.Log10(x) + z  // want `product math.Log10`
	z += x * y             // want `product x \* y`
	z -= 2 * y             // want `product 2 \* y`
	z += x*y - 1           // want `product x \* y`
	t := x * y
	_ = t + z // want `product t`
	w := x
	w *= y
	_ = w - z // want `product w`
	c.memory = x * y
	c.total = c.memory + z                          // want `product c.memory`
	_ = scale(x, y) + z                             // want `product scale\(x, y\)`
	_ = scaled(x, y) + z                            // want `product scaled\(x, y\)`
	_ = b.Scale(x) + z                              // want `product b.Scale\(x\)`
	_ = (func() float64 { return x*y + z })()       // want `product x \* y`
	_ = complex(x, y)*complex(z, z) + complex(x, x) // want `product complex`
	_ = 2 * (x * y)                                 // want `product \(x \* y\)`
	_ = x * y * 2                                   // want `product x \* y`
	_ = 2 * x * y * 2                               // want `product 2 \* x \* y`
	h := x / 2
	_ = 2 * h // want `product h`
}

func fine(x, y, z float64, i, j int, c *cost) {
	_ = float64(x*y) + z
	_ = x*y/z + z
	_ = x/3 + y
	_ = (x + y) * z
	_ = i*j + i
	_ = float64(i*j) + z
	z += float64(x * y)
	t := float64(x * y)
	_ = t + z
	_ = rounded(x, y) + z
	_ = b.Rounded(x) + z
	_ = c.memory + z
	const two, half = 2.0, 0.5
	_ = two*half + z
	_ = max(x*y, z) + z
	_ = 2 * x * y
	_ = 2 * float64(x*y)
	_ = 2 * (x + y)
	_ = 3 * (x * y)
}
