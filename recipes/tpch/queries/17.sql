-- What orders of small quantities bring in a year: a lookup for each part.
select sum(l_extendedprice) / 7 from lineitem ordered join part on p_partkey = l_partkey
where p_brand = 'Brand#23' and p_container = 'MED BOX'
and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = ordered.l_partkey);
