/** A vector of length 1, so that the product of two is the cosine of the angle between them. */
export type UnitVector = Float32Array
