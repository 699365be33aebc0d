/** A vector of length 1. The dot product of two such vectors is the cosine of their angle. */
export type UnitVector = Float32Array
