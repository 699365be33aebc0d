/** A vector of length 1: the dot product of two is the cosine of their angle. */
export type UnitVector = Float32Array
