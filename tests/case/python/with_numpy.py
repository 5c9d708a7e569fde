"""Arrays and the threads of their library."""

import numpy

import shoal

numpy.ones((600, 600)) @ numpy.ones((600, 600))
data = numpy.arange(4_000_000, dtype=numpy.float64).reshape(2000, 2000)
sums = shoal.map(lambda row: float(data[row].sum()), range(0, 2000, 100))
assert sums == [float(data[row].sum()) for row in range(0, 2000, 100)]
part = shoal.map(lambda i: data[i : i + 2, :3].copy(), [0, 7])
assert numpy.array_equal(part[1], data[7:9, :3])
product = shoal.map(lambda n: float((numpy.ones((n, n)) @ numpy.ones((n, n)))[0, 0]), [200, 300])
assert product == [200.0, 300.0]
print("ok")
